"""A software switch: it sums the packets of SwitchML's client library on this machine."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from patchgen.errors import file_errors
from patchgen.system import cache as kept
from patchgen.system import cmake, files

if TYPE_CHECKING:
    from collections.abc import Mapping

PROGRAM = "switchml-switch"
SOURCE = os.path.dirname(os.path.abspath(__file__))
WORKERS = 32
"""Largest number of workers that sum together."""

_SOURCES = (".cc", ".h", ".proto", ".txt")


def build(cache: str, environ: Mapping[str, str]) -> str:
    """Compiles the program, unless the cache has it.

    Args:
        cache: the directory of all that is kept.
        environ: names the compiler and its flags.

    Returns:
        The path of the program in the cache. It takes the options of the command `switch`, and
        writes `listening on HOST:PORT` to stdout once it is ready.

    Raises:
        ToolError: a program or library is missing, or the build failed.
        FileError: the cache cannot be written.
    """

    def make(directory: str) -> None:
        with files.scratch("switch") as place:
            cmake.compiled(SOURCE, place, [], "the software switch")
            with file_errors():
                shutil.copy2(os.path.join(place, PROGRAM), directory)

    inputs = [kept.digest(SOURCE, only=_SOURCES), kept.compiler(environ)]
    return os.path.join(kept.kept(cache, "switch", inputs, make).path, PROGRAM)
