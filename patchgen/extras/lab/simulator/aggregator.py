"""The simulator's aggregator as a program of its own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from patchgen.system import native

if TYPE_CHECKING:
    from collections.abc import Mapping

PROGRAM = "switchml-aggregator"

_SOURCE = os.path.dirname(os.path.abspath(__file__))
_SOURCES = (".cc", ".h", ".txt")


def build(cache: str, environ: Mapping[str, str]) -> str:
    """Compiles the program, unless the cache has it.

    Args:
        cache: the directory of all that is kept.
        environ: names the compiler and its flags.

    Returns:
        The path of the program in the cache. It takes --listen, --workers and --json as
        `simulator serve` does, and writes `{"listening": "HOST:PORT"}` to stdout once it is ready.

    Raises:
        ToolError: a program is missing, or the build failed.
        FileError: the cache cannot be written.
    """
    project = native.Project(
        "aggregator", "the aggregator", PROGRAM, source=_SOURCE, suffixes=_SOURCES,
        options=("-DAGGREGATOR=ON",),
    )  # fmt: skip
    return native.get_or_build(project, cache, environ).path
