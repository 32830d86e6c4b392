"""Rebuild of the simulator from its provenance."""

from __future__ import annotations

import os
from pathlib import Path

from patchgen.core.library import homes
from patchgen.core.wheel.rebuild import RebuildRequest, RecordedBuild, requirements
from patchgen.core.wheel.rebuild.requirements import Rebuildable, Requirement
from patchgen.extras.lab import simulator


def read_simulator(original: RecordedBuild, request: RebuildRequest) -> Rebuildable:
    """Return what a rebuild of the simulator requires, and a function that builds it.

    Raises:
        OptionsError: the provenance has a value that cannot be used.
    """
    debug, environ = original.take("request.debug", bool), request.make_environ(original)

    def build(directory: str, _: str) -> str:
        simulator.install(Path(directory), debug=debug, environ=environ)
        return os.path.join(directory, homes.ARCHIVE)

    source = {simulator.NAME: original.provenance.find_digest(simulator.NAME) or ""}
    return Rebuildable(
        (
            requirements.compiler(original, environ),
            Requirement("source", source, lambda: {simulator.NAME: simulator.digest_source()}),
        ),
        build,
    )
