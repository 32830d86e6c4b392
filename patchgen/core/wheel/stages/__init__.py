"""Stages of a build, in order.

A stage is a generator function from the workspace and earlier results to its own result. It returns
what an earlier build made from the same inputs. Otherwise it yields its `Stage` first.
"""

from __future__ import annotations

from patchgen.core.wheel.request import BuildRequest
from patchgen.core.wheel.stages import (
    build_environment,
    objects,
    packing,
    source_tree,
    verification,
)
from patchgen.core.wheel.values import Built, Stage, WheelInputs
from patchgen.core.wheel.workspace import Making, Workspace

CHECKED = frozenset({Stage.LOCK, Stage.SOURCE, Stage.ENV, Stage.PATCH, Stage.COMPILE})
"""Stages that begin only if no requirement is missing."""
REVEALING = frozenset({Stage.LOCK, Stage.ENV})
"""Stages after which more requirements can be checked."""


def list_stages(request: BuildRequest) -> list[Stage]:
    """Return a request's stages; without an environment there is no lock."""
    return [stage for stage in Stage if request.python is None or stage is not Stage.LOCK]


def run_all(workspace: Workspace) -> Making[Built]:
    """Run all stages. A plan ends before the first that has something to make."""
    locked = (
        (yield from build_environment.make_lock(workspace))
        if workspace.request.python is None
        else None
    )
    fetched = yield from source_tree.fetch_source(workspace)
    env = yield from build_environment.make_build_environment(workspace, locked)
    patched = yield from source_tree.apply_patch(workspace, fetched)
    inputs = WheelInputs(workspace.request, workspace.sandbox, fetched, env, patched)
    compiled = yield from objects.compile_objects(workspace, inputs)
    wheel = yield from packing.pack_wheel(workspace, inputs, compiled)
    verified = yield from verification.verify_wheel(workspace, env, wheel)
    return Built(inputs, compiled, wheel, verified)
