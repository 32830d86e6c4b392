"""The patch in the source."""

from __future__ import annotations

import contextlib
import hashlib
from typing import TYPE_CHECKING

from patchgen.core.library import archive
from patchgen.core.patch import patchfile, render, state, tree
from patchgen.core.wheel.values import Patched
from patchgen.system import paths
from patchgen.system.files import sha256

if TYPE_CHECKING:
    from patchgen.core.wheel.request import Request
    from patchgen.core.wheel.session import Session


def look(session: Session) -> Patched | None:
    """Reads the patch, where the tree has these very options."""
    request = session.request
    found = state.inspect(paths.from_native(request.source), (request.pin,))
    applied = found.overall is state.Overall.PATCHED and found.options == request.options
    return _describe(request) if applied else None


def make(session: Session) -> Patched:
    """Applies the patch; on a patched tree only files that differ are written."""
    request = session.request
    tree.apply(paths.from_native(request.source), request.options, (request.pin,), request.pin)
    return _describe(request)


def _describe(request: Request) -> Patched:
    home = request.options.switchml_home
    client, simulator = None, False
    with contextlib.suppress(archive.ArchiveError, FileNotFoundError):  # the check reports it
        client, simulator = sha256(archive.path(home)), archive.read(home).simulator
    return Patched(
        sha256=hashlib.sha256(patchfile.build(request.options, request.pin)).hexdigest(),
        new_files=tuple(sorted(render.new_paths(request.pin))),
        client=client,
        simulator=simulator,
    )
