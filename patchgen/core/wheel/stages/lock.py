"""The lock of the environment that PyTorch is built in."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from patchgen.core.wheel import env
from patchgen.core.wheel.session import Session
from patchgen.errors import ToolError

if TYPE_CHECKING:
    from patchgen.core.wheel.env.lockfile import Lock  # imports yaml


def make_lock(session: Session) -> Lock:
    """Reads the lock, or solves the environment file for this machine where there is none.

    Raises:
        ToolError: conda-lock or py-rattler is not installed.
    """
    request = session.request
    try:
        env.require()
    except ToolError as error:
        session.begin("lock")  # which ends a plan; that has a row for what is missing
        raise ToolError(f"{error}; or --python PYTHON builds without an environment") from None
    from patchgen.core.wheel.env import lockfile, locking

    if not os.path.exists(request.lock):
        session.begin("lock")
        session.place.show()  # a process with py-rattler's threads can no more
        locking.make_lock(
            request.environment,
            request.lock,
            platform=env.platform(),
            channels=(),
            cache=request.cache,
        )
    return lockfile.read(request.lock)
