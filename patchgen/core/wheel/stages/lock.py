"""The lock of the environment that PyTorch is built in."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from patchgen.core.wheel import env
from patchgen.errors import ToolError

if TYPE_CHECKING:
    from patchgen.core.wheel.env.lockfile import Lock
    from patchgen.core.wheel.session import Session


def look(session: Session) -> Lock | None:
    """Reads the lock, where there is one.

    Raises:
        ToolError: conda-lock or py-rattler is not installed.
    """
    try:
        env.require()
    except ToolError as error:
        raise ToolError(f"{error}; or --python PYTHON builds without an environment") from None
    if not os.path.exists(session.request.lock):
        return None
    from patchgen.core.wheel.env import lockfile

    return lockfile.read(session.request.lock)


def make(session: Session) -> Lock:
    """Solves the environment file for this machine."""
    from patchgen.core.wheel.env import lockfile, locking

    request = session.request
    session.place.show()  # a process with py-rattler's threads can no more
    locking.make_lock(
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
