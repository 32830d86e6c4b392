"""Stages that provide the lock and the environment: the user's, or a prefix from the lock."""

from __future__ import annotations

import logging
import os
import shutil
from typing import TYPE_CHECKING

from patchgen.core.wheel import env, toolchain, variables
from patchgen.core.wheel.request import BuildRequest
from patchgen.core.wheel.sandbox import Sandbox
from patchgen.core.wheel.values import Environment, Stage
from patchgen.core.wheel.workspace import Making, Workspace
from patchgen.errors import ToolError
from patchgen.system.files import sha256

if TYPE_CHECKING:
    from patchgen.core.wheel.env.lockfile import Lock  # imports yaml

_LOGGER = logging.getLogger(__name__)


def make_lock(workspace: Workspace) -> Making[Lock]:
    """Read the lock, or make it from the environment file.

    Raises:
        ToolError: conda-lock or py-rattler is not installed.
    """
    request = workspace.request
    try:
        env.require()
    except ToolError as error:
        yield Stage.LOCK  # where a plan ends; it has a row about the missing library
        raise ToolError(f"{error}; or --python PYTHON builds without an environment") from None
    from patchgen.core.wheel.env import lockfile, locking

    if not os.path.exists(request.lock):
        yield Stage.LOCK
        workspace.sandbox.show()  # impossible once py-rattler has started threads
        locking.make_lock(
            request.environment,
            request.lock,
            platform=env.platform(),
            channels=(),
            cache=request.cache,
        )
    return lockfile.read(request.lock)


def make_environment(workspace: Workspace, lock: Lock | None) -> Making[Environment]:
    """Make the prefix, unless it is made from this lock; None: use the user's interpreter."""
    request, sandbox = workspace.request, workspace.sandbox
    if lock is not None:
        yield from _make_prefix(workspace, lock)
    sandbox.show()
    values = read_variables(request, sandbox)
    if lock is None:
        python, environ = request.interpreter, variables.environment(values, request.environ, None)
    else:
        python = sandbox.path(request.interpreter)
        environ = variables.environment(values, request.environ, os.path.dirname(python))
        environ = {**toolchain.activated(sandbox.path(request.prefix), environ), **values}
    return Environment(
        python=python,
        lock=lock.identity if lock else None,
        lock_file=sha256(request.lock) if lock else None,
        toolchain=toolchain.find(python, environ),
        variables=values,
        environ=environ,
    )


def _make_prefix(workspace: Workspace, lock: Lock) -> Making[None]:
    from patchgen.core.wheel.env import lockfile, marker, prefix

    request = workspace.request
    named = workspace.sandbox.path(request.prefix)  # the path that its files contain
    found = marker.read(request.prefix) if os.path.isdir(request.prefix) else None
    serves = found is not None and found.serves(lock.identity, request.prefix, named)
    if found is not None and found.whole and serves:
        return
    yield Stage.ENV
    stale = lockfile.stale(lock, request.lock)
    if stale:
        _LOGGER.info("warning: %s", stale)
    if found is not None and not serves:
        why = "from another lock" if found.lock != lock.identity else "for another path"
        _LOGGER.info("removing %s, which was made %s", request.prefix, why)
        shutil.rmtree(request.prefix)
    workspace.sandbox.show()
    prefix.create_prefix(lock, request.prefix, request.cache, request.environ, named)


def read_variables(request: BuildRequest, sandbox: Sandbox) -> dict[str, str]:
    """Return the variables of the build; CUDA follows from the lock or environment file."""
    return request.variables(sandbox.path(request.prefix), cuda=request.names_cuda)
