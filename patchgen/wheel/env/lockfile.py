"""A conda-lock.yml, through conda-lock's own models: version 1, as conda-lock and mamba read it."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchgen.errors import FileError, OptionsError, PatchgenError, file_errors
from patchgen.system import files
from patchgen.wheel import env
from patchgen.wheel.env import spec

if TYPE_CHECKING:
    from collections.abc import Sequence

_LIBRARY = "conda_lock"
_HEADER = """\
# Written by `switchml-patch env lock` from {source}; other changes are lost.
# Every package with its address and hashes. `switchml-patch env create -o PREFIX` installs them;
# conda-lock, mamba and micromamba read this file as well.
"""


@dataclass(frozen=True)
class Package:
    """Package of a solution."""

    name: str
    version: str
    build: str
    url: str
    md5: str
    sha256: str
    depends: tuple[tuple[str, str], ...] = ()

    @property
    def file_name(self) -> str:
        """The archive's own name."""
        return self.url.rsplit("/", 1)[-1]

    @property
    def channel(self) -> str:
        """The URL of its channel: without the platform and the file."""
        return self.url.rsplit("/", 2)[0]


@dataclass(frozen=True)
class Lock:
    """A solution, and what it is a solution of."""

    platform: str
    packages: tuple[Package, ...]
    channels: tuple[str, ...]
    source: str
    content_hash: str
    virtual_packages: str = ""
    link_scripts: tuple[str, ...] = ()

    @property
    def identity(self) -> str:
        """SHA-256 of what a prefix made from this lock holds."""
        held = sorted(f"{p.name} {p.version} {p.build} {p.sha256}\n" for p in self.packages)
        return hashlib.sha256("".join([self.platform, "\n", *held]).encode()).hexdigest()


def _models() -> Any:  # noqa: ANN401  # its types cannot be named without importing it
    if _LIBRARY not in sys.modules:
        # Its own file imports all that solves, which takes three times as long as what is needed.
        found = importlib.util.find_spec(_LIBRARY)
        if found is not None:
            sys.modules[_LIBRARY] = importlib.util.module_from_spec(found)
    with warnings.catch_warnings():
        # On import conda-lock's copy of conda warns about itself, and conda-lock uses an old call.
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        import conda_lock.lockfile
        import conda_lock.lockfile.v2prelim.models
        import conda_lock.models.channel
    return conda_lock


def write(lock: Lock, path: str) -> None:
    """Writes a lock; the same lock always gives the same bytes.

    Raises:
        OptionsError: a package has no md5 or no sha256.
        FileError: it cannot be written.
    """
    conda_lock = _models()
    for package in lock.packages:
        if not package.md5 or not package.sha256:
            raise OptionsError(
                f"{package.url}: its channel gives no {'sha256' if package.md5 else 'md5'}; "
                "a lock without it checks nothing"
            )
    models, channel = conda_lock.lockfile.v2prelim.models, conda_lock.models.channel
    custom = {
        "virtual_packages": lock.virtual_packages,
        "link_scripts": " ".join(lock.link_scripts),
    }
    content = models.Lockfile(
        package=[_to_model(models, package, lock.platform) for package in lock.packages],
        metadata=models.LockMeta(
            content_hash={lock.platform: lock.content_hash},
            channels=[channel.Channel(url=url, used_env_vars=()) for url in lock.channels],
            platforms=[lock.platform],
            sources=[lock.source],
            custom_metadata={key: value for key, value in custom.items() if value},
        ),
    )
    with files.scratch("lock") as directory, file_errors():
        written = Path(directory, "conda-lock.yml")
        conda_lock.lockfile.write_conda_lock_file(content, written, None, include_help_text=False)
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
    """Reads a lock; dependencies come before what needs them.

    Raises:
        OptionsError: it is none, or not for one platform, or a hash is missing.
        FileError: it cannot be read.
    """
    conda_lock = _models()
    if not os.path.exists(path):
        raise FileError(f"{path}: no such file; make it with: switchml-patch env lock")
    try:
        with file_errors():
            parsed = conda_lock.lockfile.parse_conda_lock_file(Path(path))
    except PatchgenError:
        raise
    except Exception as error:  # of YAML, pydantic and conda-lock alike
        other = isinstance(error, (AttributeError, TypeError))  # as YAML it is no mapping
        reason = "not what conda-lock writes" if other else " ".join(str(error).split())
        raise OptionsError(f"{path}: no conda-lock.yml: {reason}") from error
    meta = parsed.metadata
    if len(meta.platforms) != 1:
        raise OptionsError(f"{path}: is for {', '.join(meta.platforms)}; lock one platform")
    custom = meta.custom_metadata or {}
    return Lock(
        platform=meta.platforms[0],
        packages=tuple(_from_model(path, package) for package in parsed.package),
        channels=tuple(channel.url for channel in meta.channels),
        source=meta.sources[0] if meta.sources else "",
        content_hash=meta.content_hash.get(meta.platforms[0], ""),
        virtual_packages=custom.get("virtual_packages", ""),
        link_scripts=tuple(custom.get("link_scripts", "").split()),
    )


def _from_model(path: str, package: Any) -> Package:  # noqa: ANN401
    if package.manager != "conda":
        raise OptionsError(f"{path}: {package.name}: comes from {package.manager}, not from conda")
    if not package.hash.sha256:
        raise OptionsError(f"{path}: {package.name}: has no sha256; lock it again")
    return Package(
        name=package.name,
        version=package.version,
        build=package.build or _build_of(package.url),
        url=package.url,
        md5=package.hash.md5,
        sha256=package.hash.sha256,
        depends=tuple(sorted(package.dependencies.items())),
    )


def _build_of(url: str) -> str:
    """The build string of an archive's name, for locks of a conda-lock that did not write it."""
    stem = url.rsplit("/", 1)[-1].removesuffix(".conda").removesuffix(".tar.bz2")
    return stem.rsplit("-", 1)[-1]


def source_of(lock: Lock, path: str) -> str:
    """The environment file that a lock was made from: named relative to the lock."""
    return os.path.join(os.path.dirname(os.path.abspath(path)), lock.source)


def stale(lock: Lock, path: str) -> str | None:
    """Reason why a lock no longer matches its environment file, or None.

    A lock whose environment file is not there is not stale: it says all by itself.

    Args:
        lock: as read from `path`.
        path: where the lock is; the environment file is found from there.
    """
    source = source_of(lock, path)
    if not lock.source or not os.path.isfile(source):
        return None
    if spec.load(source).content_hash(lock.platform) == lock.content_hash:
        return None
    return f"{source} has changed since {path} was made; run: switchml-patch env lock"


def relative_source(source: str, path: str) -> str:
    """Path of the environment file as a lock at `path` names it.

    A file of the tool's own is named without its directory, which differs between machines.
    """
    if os.path.dirname(os.path.abspath(source)) == env.SHIPPED:
        return os.path.basename(source)
    return os.path.relpath(os.path.abspath(source), os.path.dirname(os.path.abspath(path)))


def sorted_packages(packages: Sequence[Package]) -> tuple[Package, ...]:
    """Packages sorted by name, as a lock lists them."""
    return tuple(sorted(packages, key=lambda package: package.name))
