"""Stage that provides the lock of the environment."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from patchgen.core.wheel import env
from patchgen.core.wheel.workspace import Making, Workspace
from patchgen.errors import ToolError

if TYPE_CHECKING:
    from patchgen.core.wheel.env.lockfile import Lock  # imports yaml


def make_lock(workspace: Workspace) -> Making[Lock]:
    """Read the lock, or make it from the environment file.

    Raises:
        ToolError: conda-lock or py-rattler is not installed.
    """
    request = workspace.request
    try:
        env.require()
    except ToolError as error:
        yield "lock"  # where a plan ends; it has a row about the missing library
        raise ToolError(f"{error}; or --python PYTHON builds without an environment") from None
    from patchgen.core.wheel.env import lockfile, locking

    if not os.path.exists(request.lock):
        yield "lock"
        workspace.sandbox.show()  # impossible once py-rattler has started threads
        locking.make_lock(
            request.environment,
            request.lock,
            platform=env.platform(),
            channels=(),
            cache=request.cache,
        )
    return lockfile.read(request.lock)
