"""Simulator, built again from its record."""

from __future__ import annotations

import os
from pathlib import Path

from patchgen.core.library import homes
from patchgen.core.wheel.rebuild import Means, Original
from patchgen.core.wheel.rebuild.needs import Need, Rebuildable, need_compiler
from patchgen.extras.lab import simulator


def read_simulator(original: Original, means: Means) -> Rebuildable:
    """Reads what `simulator install` gets from the command line.

    Raises:
        OptionsError: the record has a value that cannot be used.
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
