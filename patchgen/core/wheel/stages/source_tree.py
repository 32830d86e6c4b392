"""Stages that fetch PyTorch's pinned commit with all submodules, and patch it."""

from __future__ import annotations

import contextlib
import os

from patchgen.core import source as sources
from patchgen.core.library import archive, origin
from patchgen.core.patch import tree
from patchgen.core.patch.state import Overall, inspect
from patchgen.core.source import Source
from patchgen.core.source.request import SourceRequest
from patchgen.core.wheel.stages import own
from patchgen.core.wheel.values import Patched, Stage
from patchgen.core.wheel.workspace import Making, Workspace
from patchgen.system import paths


def fetch_source(workspace: Workspace) -> Making[Source]:
    """Verify the tree, fetch what is missing, and revert a partly applied patch."""
    with own.made_again(workspace.request.source):
        return (yield from _fetch(workspace))


def _fetch(workspace: Workspace) -> Making[Source]:
    request = workspace.request
    directory = paths.from_native(request.source)
    there = inspect(directory, (request.pin,)) if os.path.isdir(request.source) else None
    # A build may have been killed between two files of the patch.
    partly_patched = there is not None and there.overall is Overall.PARTLY
    found = None if partly_patched else sources.find(directory, request.pin, there)
    if found is not None:
        return found
    yield Stage.SOURCE
    if partly_patched:
        tree.revert(directory, (request.pin,), request.pin)
    wanted = SourceRequest(request.pin, request.without, remotes=request.remotes)
    return sources.obtain(directory, wanted)


def apply_patch(workspace: Workspace, source: Source) -> Making[Patched]:
    """Apply the patch, unless the tree has it with the same options."""
    request, found = workspace.request, source.tree
    made = (found.overall, found.options, found.made_for)
    if made != (Overall.PATCHED, request.options, request.pin.name):
        yield Stage.PATCH
        tree.apply_inspected(found, request.patch)
    client: list[dict[str, object]] = []
    with contextlib.suppress(archive.ArchiveError, FileNotFoundError):  # reported by the check
        client = origin.list_materials(request.options.switchml_home)
    return Patched(request.patch, client)
