"""The simulator's aggregator as a program of its own."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from patchgen.errors import file_errors
from patchgen.system import cache as kept
from patchgen.system import cmake, files

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
        `simulator serve` does, and writes `listening on HOST:PORT` to stdout once it is ready.

    Raises:
        ToolError: a program is missing, or the build failed.
        FileError: the cache cannot be written.
    """

    def make(directory: str) -> None:
        with files.scratch("aggregator") as place:
            cmake.compiled(_SOURCE, place, ["-DAGGREGATOR=ON"], "the aggregator")
            with file_errors():
                shutil.copy2(os.path.join(place, PROGRAM), directory)

    inputs = [kept.digest(_SOURCE, only=_SOURCES), kept.compiler(environ)]
    return os.path.join(kept.kept(cache, "aggregator", inputs, make).path, PROGRAM)
