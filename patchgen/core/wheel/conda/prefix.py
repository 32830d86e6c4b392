"""Makes a prefix from a lock: verified, whole or made anew, one process at a time."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from patchgen.core.wheel.conda import marker, packages
from patchgen.core.wheel.conda.lockfile import Lock, Package
from patchgen.core.wheel.conda.marker import Marker
from patchgen.errors import ToolError, TreeError, file_errors
from patchgen.system import files
from patchgen.system import lock as locking
from patchgen.system.process import CompletedRun, Program, capture

if TYPE_CHECKING:
    from rattler import RepoDataRecord

_LOGGER = logging.getLogger(__name__)
_MESSAGES = ".messages.txt"
_TAIL = 20  # last output lines of a script


def create_prefix(
    lock: Lock, prefix: str, cache: str, environ: Mapping[str, str], named: str | None = None
) -> None:
    """Make a prefix, anew if it is unfinished. Logs each step.

    Args:
        lock: packages of the prefix.
        prefix: directory: missing, empty, or begun from the same lock.
        cache: directory of archives and unpacked packages, shared by all runs.
        environ: environment of the user, for the post-link scripts that the lock allows.
        named: path of the prefix for its files and scripts; None: its own.

    Raises:
        TreeError: the prefix holds something else, another run is making it, a hash is wrong, or
            a complete prefix has lost a required file.
        ToolError: a package cannot be fetched or linked, its script failed, or a required file is
            missing.
        FileError: the file system refused.
    """
    prefix = os.path.abspath(prefix)
    with file_errors():
        os.makedirs(prefix, exist_ok=True)
        with locking.held(prefix):
            state = _state(lock, prefix, named or prefix)
            if not state.whole:
                _create(lock, prefix, cache, environ, state)
            elif lost := _missing(lock, named or prefix):
                raise TreeError(f"{prefix}: {lost}; remove this directory and create it again")


def _create(lock: Lock, prefix: str, cache: str, environ: Mapping[str, str], state: Marker) -> None:
    named = state.named or prefix
    archives = packages.fetch(lock.packages, os.path.join(cache, packages.STORE))
    marker.write(prefix, state)
    _clear(prefix)
    _LOGGER.info("linking %d packages into %s", len(archives), prefix)
    asyncio.run(_link(lock, archives, prefix, named, os.path.join(cache, "packages")))
    for package in lock.packages:
        _name_origin(prefix, package)
    output = "".join(
        _run_script(named, package, environ)
        for package in lock.packages
        if _may_run(lock, prefix, package)
    )
    if missing := _missing(lock, named):
        raise ToolError(
            f"{prefix}: {missing}; see required_files in the environment file. "
            f"The next run makes the environment anew.{output}"
        )
    marker.write(prefix, dataclasses.replace(state, whole=True))


def _clear(prefix: str) -> None:
    """Remove everything but the marker: packages and scripts of an earlier run may be half done."""
    meta, own = os.path.split(marker.NAME)
    left = [
        entry
        for directory, kept in ((prefix, meta), (os.path.join(prefix, meta), own))
        for entry in os.scandir(directory)
        if entry.name != kept
    ]
    if left:
        _LOGGER.info("removing what an unfinished run left in %s", prefix)
    for entry in left:
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)


def _missing(lock: Lock, prefix: str) -> str:
    """Return what is wrong with required files; empty if nothing is."""
    found = ((file, _problem(os.path.join(prefix, file))) for file in lock.required_files)
    return ", ".join(f"{file} is {problem}" for file, problem in found if problem)


def _problem(path: str) -> str | None:
    try:
        status = os.stat(path)
    except OSError:
        return "a dangling link" if os.path.islink(path) else "missing"
    if not stat.S_ISREG(status.st_mode):
        return "not a file"
    return None if status.st_size else "empty"


def _state(lock: Lock, prefix: str, named: str) -> Marker:
    state = marker.read(prefix)
    if state is None:
        if os.listdir(prefix):
            raise TreeError(
                f"{prefix}: holds files, and was not made by this command; name another directory"
            )
        return Marker(lock.identity, named=named if named != prefix else None)
    if not state.serves(lock.identity, prefix, named):
        kind = "made" if state.whole else "begun"
        why = "from another lock" if state.lock != lock.identity else "for a build"
        raise TreeError(f"{prefix}: was {kind} {why}; remove it, or name another")
    return state


async def _link(
    lock: Lock, archives: Mapping[Package, str], prefix: str, named: str, cache: str
) -> None:
    import rattler  # heavy
    from rattler.exceptions import (
        CacheDirError,
        ExtractError,
        InstallerError,
        LinkError,
        TransactionError,
    )
    from rattler.package_cache import (
        PackageCache,
        PackageCacheLayer,
        ValidationMode,
    )

    # Files of a prefix may be hard links to the cache, so changes in a prefix would come up in the
    # next one.
    layer = PackageCacheLayer(cache).with_validation_mode(ValidationMode.full())
    records = [await _record(package, path) for package, path in archives.items()]
    try:
        await rattler.install(
            records,
            prefix,
            alternative_target_prefix=named,
            package_cache=PackageCache.from_layers([layer]),
            platform=rattler.Subdir(lock.platform),
            execute_link_scripts=False,
            show_progress=False,
        )
    except (CacheDirError, ExtractError, InstallerError, LinkError, TransactionError) as error:
        raise ToolError(f"{prefix}: linking failed: {error}") from error


async def _record(package: Package, path: str) -> RepoDataRecord:
    """Return the record in an archive, which must agree with the lock."""
    import rattler

    record = await rattler.RepoDataRecord.from_package_archive(path)
    found = (record.name.normalized, str(record.version), str(record.build))
    if found != (package.name, package.version, package.build):
        raise TreeError(
            f"{package.url}: holds {' '.join(found)}, and not "
            f"{package.name} {package.version} {package.build} as the lock says; not installed"
        )
    record.md5 = bytes.fromhex(package.md5)
    record.channel = package.channel
    return record


def _name_origin(prefix: str, package: Package) -> None:
    """Replace the store by the package's URL in its record."""
    stem = f"{package.name}-{package.version}-{package.build}"
    path = Path(prefix, "conda-meta", f"{stem}.json")
    record = json.loads(path.read_text(encoding="utf-8"))
    record["url"] = package.url
    files.replace(os.fsencode(path), json.dumps(record, indent=2).encode() + b"\n")


def _script(prefix: str, package: Package) -> str:
    """Return the path of a package's post-link script, even if it has none."""
    return os.path.join(prefix, "bin", f".{package.name}-post-link.sh")


def _may_run(lock: Lock, prefix: str, package: Package) -> bool:
    """Return whether a package has a post-link script, and the lock allows it."""
    if not os.path.isfile(_script(prefix, package)):
        return False
    allowed = package.name in lock.link_scripts
    how = "running" if allowed else "not run:"
    _LOGGER.info("%s the post-link script of %s", how, package.name)
    return allowed


def _run_script(prefix: str, package: Package, environ: Mapping[str, str]) -> str:
    """Run a post-link script as conda does, and return its last output.

    Its processes end with it, and with this one.
    """
    binaries = os.path.join(prefix, "bin")
    path = environ.get("PATH", os.defpath)
    own = {
        **environ,
        "PREFIX": prefix,
        "CONDA_PREFIX": prefix,
        "PKG_NAME": package.name,
        "PKG_VERSION": package.version,
        "PKG_BUILDNUM": package.build.rsplit("_", 1)[-1],
        "PATH": os.pathsep.join([binaries, path]),
    }
    command = ["bash", _script(prefix, package)]
    ended = capture(Program(command, binaries, own, supervised=True), limit=None)
    output = f"return code {ended.code}{_tail(ended)}{_messages(prefix)}"
    if ended.code != 0:
        raise ToolError(f"the post-link script of {package.name} failed: {output}")
    return f"\nthe post-link script of {package.name} ended with {output}"


def _tail(ended: CompletedRun) -> str:
    lines = b"\n".join([ended.out.strip(), ended.err.strip()]).decode(errors="replace").splitlines()
    return "".join(f"\n{line}" for line in lines[-_TAIL:] if line)


def _messages(prefix: str) -> str:
    try:
        with open(os.path.join(prefix, _MESSAGES), encoding="utf-8", errors="replace") as file:
            return f"\n{file.read().strip()}"
    except FileNotFoundError:
        return ""
