"""Stage that fetches PyTorch's pinned commit with all submodules."""

from __future__ import annotations

import os

from patchgen.core import source as sources
from patchgen.core.patch import state, tree
from patchgen.core.source import Source
from patchgen.core.wheel.request import BuildRequest
from patchgen.core.wheel.workspace import Making, Workspace
from patchgen.system import paths


def fetch_source(workspace: Workspace) -> Making[Source]:
    """Verify the tree, fetch what is missing, and revert a partly applied patch."""
    request = workspace.request
    directory = paths.from_native(request.source)
    partly_patched = _is_partly_patched(request)
    found = None if partly_patched else sources.find(directory, request.pin)
    if found is not None:
        return found
    yield "source"
    if partly_patched:
        tree.revert(directory, (request.pin,), request.pin)
    wanted = sources.SourceRequest(request.pin, request.without, places=request.places)
    return sources.obtain(directory, wanted)


def _is_partly_patched(request: BuildRequest) -> bool:
    """Return whether a build was killed between two files of the patch."""
    if not os.path.isdir(request.source):
        return False
    found = state.inspect(paths.from_native(request.source), (request.pin,))
    return found.overall is state.Overall.PARTLY
