"""Rebuild of the simulator from its provenance."""

from __future__ import annotations

import os
from pathlib import Path

from patchgen.core.library import homes
from patchgen.core.wheel.rebuild import Means, Original
from patchgen.core.wheel.rebuild.needs import Need, Rebuildable, need_compiler
from patchgen.extras.lab import simulator


def read_simulator(original: Original, means: Means) -> Rebuildable:
    """Return what a rebuild of the simulator requires, and a function that builds it.

    Raises:
        OptionsError: the provenance has a value that cannot be used.
    """
    debug, environ = original.truth("request.debug"), means.make_environ(original)

    def build(directory: str, _: str) -> str:
        simulator.install(Path(directory), debug=debug, environ=environ)
        return os.path.join(directory, homes.ARCHIVE)

    source = {simulator.NAME: original.provenance.find_digest(simulator.NAME) or ""}
    return Rebuildable(
        (
            need_compiler(original, environ),
            Need("source", source, lambda: {simulator.NAME: simulator.digest_source()}),
        ),
        build,
    )
