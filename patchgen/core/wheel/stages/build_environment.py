"""Stages that provide the lock and the environment: the user's, or a prefix from the lock."""

from __future__ import annotations

import logging
import os
import shutil
from typing import TYPE_CHECKING

from patchgen.core.wheel import conda, toolchain, variables
from patchgen.core.wheel.request import BuildRequest
from patchgen.core.wheel.sandbox import Sandbox
from patchgen.core.wheel.stages import own
from patchgen.core.wheel.values import BuildEnvironment, Stage
from patchgen.core.wheel.workspace import Making, Workspace
from patchgen.errors import ToolError, TreeError
from patchgen.system.files import sha256

if TYPE_CHECKING:
    from patchgen.core.wheel.conda.lockfile import Lock  # imports yaml

_LOGGER = logging.getLogger(__name__)


def make_lock(workspace: Workspace) -> Making[Lock]:
    """Read the lock, or make it from the environment file.

    Raises:
        ToolError: conda-lock or py-rattler is not installed.
    """
    request = workspace.request
    try:
        conda.require()
    except ToolError as error:
        yield Stage.LOCK  # where a plan ends; it has a row about the missing library
        raise ToolError(f"{error}; or --python PYTHON builds without an environment") from None
    from patchgen.core.wheel.conda import lockfile, locking

    if not os.path.exists(request.lock):
        yield Stage.LOCK
        workspace.sandbox.prepare_threads()  # those of py-rattler
        locking.make_lock(
            request.environment_file,
            request.lock,
            platform=conda.platform(),
            channels=(),
            cache=request.cache,
        )
    return lockfile.read(request.lock)


def make_build_environment(workspace: Workspace, lock: Lock | None) -> Making[BuildEnvironment]:
    """Make the prefix, unless it is made from this lock; None: use the user's interpreter."""
    request, sandbox = workspace.request, workspace.sandbox
    if lock is not None:
        yield from _make_prefix(workspace, lock)
    values = read_variables(request, sandbox)
    if lock is None:
        python, environ = request.interpreter, variables.make_environ(values, request.environ, None)
    else:
        python = sandbox.reveal(request.interpreter)
        environ = variables.make_environ(values, request.environ, os.path.dirname(python))
        environ = {**toolchain.activated(sandbox.reveal(request.prefix), environ), **values}
    return BuildEnvironment(
        python=python,
        lock=lock.identity if lock else None,
        lock_file=sha256(request.lock) if lock else None,
        toolchain=toolchain.find(python, environ),
        variables=values,
        environ=environ,
    )


def _make_prefix(workspace: Workspace, lock: Lock) -> Making[None]:
    from patchgen.core.wheel.conda import lockfile, marker, prefix

    request = workspace.request
    named = workspace.sandbox.path(request.prefix)  # the path that its files contain
    with own.made_again(request.prefix):
        found = marker.read(request.prefix) if os.path.isdir(request.prefix) else None
        if found is None and os.path.isdir(request.prefix) and os.listdir(request.prefix):
            raise TreeError(f"{request.prefix}: holds files, and has lost {marker.NAME}")
    serves = found is not None and found.serves(lock.identity, request.prefix, named)
    lost = found is not None and found.whole and not os.path.exists(request.interpreter)
    if found is not None and found.whole and serves and not lost:
        return
    yield Stage.ENV
    stale = lockfile.stale(lock, request.lock)
    if stale:
        _LOGGER.info("warning: %s", stale)
    if found is not None and (lost or not serves):
        why = "was made for another path"
        if found.lock != lock.identity:
            why = "was made from another lock"
        elif lost:
            why = "has lost files"
        _LOGGER.info("removing %s, which %s", request.prefix, why)
        shutil.rmtree(request.prefix)
    prefix.create_prefix(
        lock,
        request.prefix,
        request.cache,
        request.environ,
        workspace.sandbox.reveal(request.prefix),
    )


def read_variables(request: BuildRequest, sandbox: Sandbox) -> dict[str, str]:
    """Return the variables of the build; CUDA follows from the lock or environment file."""
    return request.variables(sandbox.path(request.prefix), cuda=request.names_cuda)
