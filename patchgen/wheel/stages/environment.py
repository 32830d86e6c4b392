"""The environment that PyTorch is built in: the user's own, or a prefix made from the lock."""

from __future__ import annotations

import logging
import os
import shutil
from typing import TYPE_CHECKING

from patchgen.system.files import sha256
from patchgen.wheel import toolchain, variables
from patchgen.wheel.values import Environment

if TYPE_CHECKING:
    from collections.abc import Iterable

    from patchgen.wheel.env.lockfile import Lock
    from patchgen.wheel.request import Request
    from patchgen.wheel.session import Session

_LOGGER = logging.getLogger(__name__)
_CUDA = "cudatoolkit-dev"


def look(session: Session) -> Environment | None:
    """Reads the environment, where it is whole and made from this lock."""
    request, lock = session.request, session.lock
    if lock is None:
        return _describe(request, None)
    from patchgen.wheel.env import marker

    found = marker.read(request.prefix) if os.path.isdir(request.prefix) else None
    if found is None or not found.whole or found.lock != lock.identity:
        return None
    return _describe(request, lock)


def make(session: Session) -> Environment:
    """Makes the prefix from the lock, in place of one that was made from another lock."""
    request, lock = session.request, session.lock
    if lock is not None:
        from patchgen.wheel.env import lockfile, marker, prefix

        stale = lockfile.stale(lock, request.lock)
        if stale:
            _LOGGER.info("warning: %s", stale)
        found = marker.read(request.prefix) if os.path.isdir(request.prefix) else None
        if found is not None and found.lock != lock.identity:
            _LOGGER.info("removing %s, which was made from another lock", request.prefix)
            shutil.rmtree(request.prefix)
        prefix.create_prefix(
            lock, request.prefix, request.cache, request.environ, link_scripts=True
        )
    return _describe(request, lock)


def _describe(request: Request, lock: Lock | None) -> Environment:
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
    """Variables of the build, by the lock, or by the environment file where there is none."""
    if request.python is not None:
        return _resolve(request, ())
    if lock is not None:
        return _resolve(request, (package.name for package in lock.packages))
    from patchgen.wheel.env import spec

    asked = spec.load(request.environment).dependencies
    return _resolve(request, (_CUDA for text in asked if _CUDA in text))


def _resolve(request: Request, packages: Iterable[str]) -> dict[str, str]:
    return request.variables(request.prefix if _CUDA in packages else None)
