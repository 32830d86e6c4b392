"""conda-lock.yml, version 1: written by conda-lock, read by it and by mamba."""

from __future__ import annotations

import hashlib
import os
import shlex
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml

from patchgen.core.wheel import conda
from patchgen.core.wheel.conda import spec
from patchgen.errors import FileError, OptionsError, file_errors
from patchgen.system import files

_VERSION = 1
T = TypeVar("T")

_HEADER = """\
# Written by `switchml-patch env lock` from {source}; other changes are lost.
# Every package with its address and hashes. `switchml-patch env create -o PREFIX` installs them;
# conda-lock, mamba and micromamba read this file as well.
"""


@dataclass(frozen=True)
class Package:
    """A locked package."""

    name: str
    version: str
    build: str
    url: str
    md5: str
    sha256: str
    depends: tuple[tuple[str, str], ...] = ()

    @property
    def file_name(self) -> str:
        """File name of the archive."""
        return self.url.rsplit("/", 1)[-1]

    @property
    def channel(self) -> str:
        """URL of its channel, without the platform."""
        return self.url.rsplit("/", 2)[0]


@dataclass(frozen=True)
class Lock:
    """A solution, and what it was solved from."""

    platform: str
    packages: tuple[Package, ...]
    channels: tuple[str, ...]
    source: str
    content_hash: str
    virtual_packages: str = ""
    link_scripts: tuple[str, ...] = ()
    required_files: tuple[str, ...] = ()

    @property
    def identity(self) -> str:
        """SHA-256 of the packages and scripts that make a prefix from this lock."""
        held = sorted(f"{p.name} {p.version} {p.build} {p.sha256}\n" for p in self.packages)
        run = sorted(f"{name}\n" for name in self.link_scripts)
        return hashlib.sha256("".join([self.platform, "\n", *held, *run]).encode()).hexdigest()


def write(lock: Lock, path: str) -> None:
    """Write a lock; equal locks give equal bytes.

    Raises:
        OptionsError: a package has no md5 or no sha256.
        FileError: the lock cannot be written.
    """
    for package in lock.packages:
        if not package.md5 or not package.sha256:
            raise OptionsError(
                f"{package.url}: its channel gives no {'sha256' if package.md5 else 'md5'}; "
                "a lock without it checks nothing"
            )
    with warnings.catch_warnings():
        # conda-lock's copy of conda warns about itself, and conda-lock uses deprecated calls.
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        from conda_lock.lockfile import write_conda_lock_file
        from conda_lock.lockfile.v2prelim import models
        from conda_lock.models.channel import Channel
    custom = {
        "virtual_packages": lock.virtual_packages,
        "link_scripts": shlex.join(lock.link_scripts),
        "required_files": shlex.join(lock.required_files),
    }
    content = models.Lockfile(
        package=[_to_model(models, package, lock.platform) for package in lock.packages],
        metadata=models.LockMeta(
            content_hash={lock.platform: lock.content_hash},
            channels=[Channel(url=url, used_env_vars=()) for url in lock.channels],
            platforms=[lock.platform],
            sources=[lock.source],
            custom_metadata={key: value for key, value in custom.items() if value},
        ),
    )
    with files.scratch("lock") as directory, file_errors():
        written = Path(directory, "conda-lock.yml")
        write_conda_lock_file(content, written, None, include_help_text=False)
        header = _HEADER.format(source=os.path.basename(lock.source))
        files.replace(os.fsencode(path), header.encode() + written.read_bytes())


def _to_model(models: Any, package: Package, platform: str) -> Any:  # noqa: ANN401
    return models.LockedDependency(
        name=package.name,
        version=package.version,
        manager="conda",
        platform=platform,
        dependencies=dict(package.depends),
        url=package.url,
        hash=models.HashModel(md5=package.md5, sha256=package.sha256),
        categories={"main"},
        build=package.build,
    )


def read(path: str) -> Lock:
    """Read and validate a lock. Dependencies come before the packages that need them.

    Reads the documented YAML, since conda-lock's own models take ten times as long, and `check` has
    to be fast. https://conda.github.io/conda-lock/output/

    Raises:
        OptionsError: it is no lock, is for several platforms, or lacks a hash.
        FileError: it cannot be read.
    """
    if not os.path.exists(path):
        raise FileError(f"{path}: no such file; make it with: switchml-patch env lock")
    with file_errors(), open(path, "rb") as file:
        try:
            data = yaml.load(file, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
        except (yaml.YAMLError, ValueError) as error:
            mark = getattr(error, "problem_mark", None)
            line = f" at line {mark.line + 1}" if mark else ""
            raise OptionsError(f"{path}: no conda-lock.yml: no YAML{line}") from error
    try:
        return _parse(data)
    except _UnusableError as error:
        raise OptionsError(f"{path}: {error}") from error


class _UnusableError(Exception):
    """A value of a lock that cannot be used."""


def _parse(data: object) -> Lock:
    version = _value(data, "version", int)
    if version != _VERSION:
        raise _UnusableError(f"no conda-lock.yml: version {version}, not {_VERSION}")
    meta = _value(data, "metadata", dict)
    platforms = _value(meta, "platforms", list)
    if len(platforms) != 1:
        raise _UnusableError(f"is for {', '.join(map(str, platforms))}; lock one platform")
    custom = _value(meta, "custom_metadata", dict, {})
    sources = _value(meta, "sources", list, [])
    packages = [_parse_package(entry) for entry in _value(data, "package", list)]
    return Lock(
        platform=platforms[0],
        packages=_sort_by_dependencies(packages),
        channels=tuple(_value(one, "url", str) for one in _value(meta, "channels", list)),
        source=sources[0] if sources else "",
        content_hash=_value(meta, "content_hash", dict).get(platforms[0]) or "",
        virtual_packages=_value(custom, "virtual_packages", str, ""),
        link_scripts=_words(custom, "link_scripts"),
        required_files=_words(custom, "required_files"),
    )


def _sort_by_dependencies(packages: Sequence[Package]) -> tuple[Package, ...]:
    """Sort packages after their dependencies; drop repeated ones of categories."""
    by_name = {package.name: package for package in packages}
    done: dict[str, Package] = {}
    begun: set[str] = set()

    def visit(name: str) -> None:
        if name in by_name and name not in begun:  # begun: a cycle, or done
            begun.add(name)
            for needed, _ in by_name[name].depends:
                visit(needed)
            done[name] = by_name[name]

    for name in by_name:
        visit(name)
    return tuple(done.values())


def _parse_package(entry: object) -> Package:
    name, manager = _value(entry, "name", str), _value(entry, "manager", str)
    if manager != "conda":
        raise _UnusableError(f"{name}: comes from {manager}, not from conda")
    hashes, url = _value(entry, "hash", dict), _value(entry, "url", str)
    sha256 = _value(hashes, "sha256", str, "")
    if not sha256:
        raise _UnusableError(f"{name}: has no sha256; lock it again")
    return Package(
        name=name,
        version=_value(entry, "version", str),
        build=_value(entry, "build", str, "") or _build_of(url),
        url=url,
        md5=_value(hashes, "md5", str),
        sha256=sha256,
        depends=tuple(sorted(_value(entry, "dependencies", dict, {}).items())),
    )


def _value(data: object, key: str, kind: type[T], default: T | None = None) -> T:
    """Return the value of a key, and check its type; the default where it is missing."""
    if not isinstance(data, dict):
        raise _UnusableError("no conda-lock.yml: not what conda-lock writes")
    found = data.get(key, default)
    if found is None and default is not None:
        return default
    if not isinstance(found, kind):
        problem = "missing" if found is None else f"not of type {kind.__name__}"
        raise _UnusableError(f"no conda-lock.yml: {key}: {problem}")
    return found


def _words(custom: object, key: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(_value(custom, key, str, "")))
    except ValueError as error:
        raise _UnusableError(f"no conda-lock.yml: {key}: {error}") from error


def _build_of(url: str) -> str:
    """Return the build string in a file name, for locks of conda-lock that lack it."""
    stem = url.rsplit("/", 1)[-1].removesuffix(".conda").removesuffix(".tar.bz2")
    return stem.rsplit("-", 1)[-1]


def stale(lock: Lock, path: str) -> str | None:
    """Return why a lock at `path` does not match its environment file any more, or None.

    Without its environment file, a lock is never stale.
    """
    source = os.path.join(os.path.dirname(os.path.abspath(path)), lock.source)
    if not lock.source or not os.path.isfile(source):
        return None
    if spec.load(source).content_hash(lock.platform) == lock.content_hash:
        return None
    return f"{source} has changed since {path} was made; run: switchml-patch env lock"


def relative_source(source: str, path: str) -> str:
    """Return a lock's name for its environment file: relative to `path`.

    A shipped file is named without its directory, which differs between machines.
    """
    if os.path.dirname(os.path.abspath(source)) == conda.SHIPPED:
        return os.path.basename(source)
    return os.path.relpath(os.path.abspath(source), os.path.dirname(os.path.abspath(path)))
