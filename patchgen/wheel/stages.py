"""The stages before anything is compiled: the lock, the source, the environment, the patch.

`look_*` only reads: it gives what the stage has made already of what was asked for, or None.
`make_*` makes it, from wherever an earlier run was stopped.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
from typing import TYPE_CHECKING

from patchgen import source as sources
from patchgen.client import library
from patchgen.errors import ToolError
from patchgen.patch import patchfile, render, state, tree
from patchgen.system import paths
from patchgen.system.files import sha256
from patchgen.wheel import env, toolchain, variables
from patchgen.wheel.values import Environment, Patched

if TYPE_CHECKING:
    from collections.abc import Iterable

    from patchgen.source import Source
    from patchgen.wheel.env.lockfile import Lock
    from patchgen.wheel.request import Request

_LOG = logging.getLogger(__name__)
_CUDA = "cudatoolkit-dev"


def look_lock(request: Request) -> Lock | None:
    """The lock, where there is one.

    Raises:
        ToolError: conda-lock or py-rattler is not installed.
    """
    try:
        env.require()
    except ToolError as error:
        raise ToolError(f"{error}; or --python PYTHON builds without an environment") from None
    if not os.path.exists(request.lock):
        return None
    from patchgen.wheel.env import lockfile

    return lockfile.read(request.lock)


def make_lock(request: Request) -> Lock:
    """Solves the environment file for this machine."""
    from patchgen.wheel.env import lockfile, locking

    locking.make(
        request.environment,
        request.lock,
        platform=env.platform(),
        channels=(),
        virtual="",
        program=None,
        cache=request.cache,
        environ=request.environ,
    )
    return lockfile.read(request.lock)


def look_source(request: Request) -> Source | None:
    """The tree, where it is complete."""
    if _partly(request):
        return None
    return sources.present(paths.from_native(request.source), request.pin)


def make_source(request: Request) -> Source:
    """Fetches what is missing, and verifies all of it."""
    source = paths.from_native(request.source)
    if _partly(request):
        tree.revert(source, (request.pin,), request.pin)
    wanted = sources.Wanted(
        request.pin, request.without, places=request.places, jobs=request.fetch_jobs
    )
    return sources.obtain(source, wanted)


def _partly(request: Request) -> bool:
    """A run was killed between two files of the patch."""
    if not os.path.isdir(request.source):
        return False
    found = state.inspect(paths.from_native(request.source), (request.pin,))
    return found.overall is state.Overall.PARTLY


def look_environment(request: Request, lock: Lock | None) -> Environment | None:
    """The environment, where it is whole and made from this lock."""
    if lock is None:
        return _environment(request, None)
    from patchgen.wheel.env import marker

    found = marker.read(request.prefix) if os.path.isdir(request.prefix) else None
    if found is None or not found.whole or found.lock != lock.identity:
        return None
    return _environment(request, lock)


def make_environment(request: Request, lock: Lock | None) -> Environment:
    """Makes the prefix from the lock. One that is of another lock gives way."""
    if lock is not None:
        from patchgen.wheel.env import create, lockfile, marker

        stale = lockfile.stale(lock, request.lock)
        if stale:
            _LOG.info(f"warning: {stale}")
        found = marker.read(request.prefix) if os.path.isdir(request.prefix) else None
        if found is not None and found.lock != lock.identity:
            _LOG.info(f"removing {request.prefix}, which is of another lock")
            shutil.rmtree(request.prefix)
        create.create(lock, request.prefix, request.cache, request.environ, link_scripts=True)
    return _environment(request, lock)


def _environment(request: Request, lock: Lock | None) -> Environment:
    python = request.python or os.path.join(request.prefix, "bin", "python")
    values = variables_of(request, lock)
    tools = os.path.dirname(python) if lock else None
    environ = variables.environment(values, request.environ, tools)
    if lock:
        environ = {**toolchain.activated(request.prefix, environ), **values}
    return Environment(
        python=python,
        lock=lock.identity if lock else None,
        lock_file=sha256(request.lock) if lock else None,
        toolchain=toolchain.find(python, environ),
        variables=values,
        environ=environ,
    )


def variables_of(request: Request, lock: Lock | None) -> dict[str, str]:
    """The variables of the build, by the lock, or by the environment file where there is none."""
    if request.python is not None:
        return _variables(request, ())
    if lock is not None:
        return _variables(request, (package.name for package in lock.packages))
    from patchgen.wheel.env import spec

    asked = spec.load(request.environment).dependencies
    return _variables(request, (_CUDA for text in asked if _CUDA in text))


def _variables(request: Request, packages: Iterable[str]) -> dict[str, str]:
    return request.variables(request.prefix if _CUDA in packages else None)


def look_patch(request: Request) -> Patched | None:
    """The patch, where the tree has these very options."""
    found = state.inspect(paths.from_native(request.source), (request.pin,))
    applied = found.overall is state.Overall.PATCHED and found.options == request.options
    return _patched(request) if applied else None


def make_patch(request: Request) -> Patched:
    """Applies it; on a patched tree only files that differ are written."""
    tree.apply(paths.from_native(request.source), request.options, (request.pin,), request.pin)
    return _patched(request)


def _patched(request: Request) -> Patched:
    home = request.options.switchml_home
    client, simulator = None, False
    with contextlib.suppress(library.ArchiveError, FileNotFoundError):  # preflight tells of it
        client, simulator = sha256(library.path(home)), library.read(home).simulator
    return Patched(
        sha256=hashlib.sha256(patchfile.build(request.options, request.pin)).hexdigest(),
        new_files=tuple(sorted(render.new_paths(request.pin))),
        client=client,
        simulator=simulator,
    )
