"""Stage that patches the source."""

from __future__ import annotations

import contextlib
import hashlib

from patchgen.core.library import archive
from patchgen.core.patch import patchfile, render, state, tree
from patchgen.core.wheel.request import BuildRequest
from patchgen.core.wheel.values import Patched
from patchgen.core.wheel.workspace import Making, Workspace
from patchgen.system import paths
from patchgen.system.files import sha256


def apply_patch(workspace: Workspace) -> Making[Patched]:
    """Apply the patch, unless the tree has it with the same options."""
    request = workspace.request
    directory = paths.from_native(request.source)
    found = state.inspect(directory, (request.pin,))
    if found.overall is not state.Overall.PATCHED or found.options != request.options:
        yield "patch"
        tree.apply(directory, request.options, (request.pin,), request.pin)
    return _describe(request)


def _describe(request: BuildRequest) -> Patched:
    home = request.options.switchml_home
    client, simulator = None, False
    with contextlib.suppress(archive.ArchiveError, FileNotFoundError):  # reported by the check
        client, simulator = sha256(archive.path(home)), archive.read(home).simulator
    return Patched(
        sha256=hashlib.sha256(patchfile.build(request.options, request.pin)).hexdigest(),
        new_files=tuple(sorted(render.new_paths(request.pin))),
        client=client,
        simulator=simulator,
    )
