"""The environment that PyTorch is built in: the user's own, or a prefix made from the lock."""

from __future__ import annotations

import logging
import os
import shutil
from typing import TYPE_CHECKING

from patchgen.core.wheel import toolchain, variables
from patchgen.core.wheel.values import Environment
from patchgen.system.files import sha256

if TYPE_CHECKING:
    from patchgen.core.wheel.env.lockfile import Lock
    from patchgen.core.wheel.env.marker import Marker
    from patchgen.core.wheel.session import Session

_LOGGER = logging.getLogger(__name__)
_CUDA = "cudatoolkit-dev"


def look(session: Session) -> Environment | None:
    """Reads the environment, where it is whole and made from this lock."""
    request, lock = session.request, session.lock
    if lock is None:
        return _describe(session)
    from patchgen.core.wheel.env import marker

    found = marker.read(request.prefix) if os.path.isdir(request.prefix) else None
    if found is None or not found.whole or not _serves(session, lock, found):
        return None
    return _describe(session)


def make(session: Session) -> Environment:
    """Makes the prefix from the lock, in place of one that was made from another lock."""
    request, lock = session.request, session.lock
    if lock is not None:
        from patchgen.core.wheel.env import lockfile, marker, prefix

        stale = lockfile.stale(lock, request.lock)
        if stale:
            _LOGGER.info("warning: %s", stale)
        found = marker.read(request.prefix) if os.path.isdir(request.prefix) else None
        if found is not None and not _serves(session, lock, found):
            why = "from another lock" if found.lock != lock.identity else "for another path"
            _LOGGER.info("removing %s, which was made %s", request.prefix, why)
            shutil.rmtree(request.prefix)
        session.place.show()
        prefix.create_prefix(
            lock, request.prefix, request.cache, request.environ,
            named=_named(session), link_scripts=True,
        )  # fmt: skip
    return _describe(session)


def _serves(session: Session, lock: Lock, found: Marker) -> bool:
    return found.serves(lock.identity, session.request.prefix, _named(session))


def _named(session: Session) -> str:
    """Path of the environment that is in its files."""
    return session.place.path(session.request.prefix)


def _describe(session: Session) -> Environment:
    request, lock = session.request, session.lock
    session.place.show()
    python = session.place.path(request.interpreter) if lock else request.interpreter
    values = variables_of(session)
    tools = os.path.dirname(python) if lock else None
    environ = variables.environment(values, request.environ, tools)
    if lock:
        environ = {**toolchain.activated(_named(session), environ), **values}
    return Environment(
        python=python,
        lock=lock.identity if lock else None,
        lock_file=sha256(request.lock) if lock else None,
        toolchain=toolchain.find(python, environ),
        variables=values,
        environ=environ,
    )


def variables_of(session: Session) -> dict[str, str]:
    """Variables of the build, by the lock, or by the environment file where there is none."""
    return session.request.variables(_named(session), cuda=_has_cuda(session))


def _has_cuda(session: Session) -> bool:
    if session.request.python is not None:
        return False
    if session.lock is not None:
        return any(package.name == _CUDA for package in session.lock.packages)
    from patchgen.core.wheel.env import spec

    return any(_CUDA in text for text in spec.load(session.request.environment).dependencies)
