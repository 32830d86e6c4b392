"""The source of PyTorch: its pinned commit with all submodules."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from patchgen.core import source as sources
from patchgen.core.patch import state, tree
from patchgen.system import paths

if TYPE_CHECKING:
    from patchgen.core.source import Source
    from patchgen.core.wheel.request import Request
    from patchgen.core.wheel.session import Session


def look(session: Session) -> Source | None:
    """Reads the tree, where it is complete."""
    request = session.request
    if _partly_patched(request):
        return None
    return sources.find(paths.from_native(request.source), request.pin)


def make(session: Session) -> Source:
    """Fetches what is missing, and verifies all of it."""
    request = session.request
    directory = paths.from_native(request.source)
    if _partly_patched(request):
        tree.revert(directory, (request.pin,), request.pin)
    wanted = sources.SourceRequest(
        request.pin, request.without, places=request.places, jobs=request.fetch_jobs
    )
    return sources.obtain(directory, wanted)


def _partly_patched(request: Request) -> bool:
    """True where a run was killed between two files of the patch."""
    if not os.path.isdir(request.source):
        return False
    found = state.inspect(paths.from_native(request.source), (request.pin,))
    return found.overall is state.Overall.PARTLY
