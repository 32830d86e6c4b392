"""A software switch: it sums the packets of SwitchML's client library on this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping

from patchgen.system import native

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
        writes `{"listening": "HOST:PORT"}` to stdout once it is ready.

    Raises:
        ToolError: a program or library is missing, or the build failed.
        FileError: the cache cannot be written.
    """
    project = native.Project(
        "switch", "the software switch", PROGRAM, source=SOURCE, suffixes=_SOURCES
    )
    return native.get_or_build(project, cache, environ).path
