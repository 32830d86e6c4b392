"""Probe of an interpreter's torch, in a process of that interpreter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchgen.system import interpreter
from patchgen.torch.installed import Installed, read_answers

if TYPE_CHECKING:
    from collections.abc import Mapping

IMPORT_LIMIT = 600.0
"""Seconds for the first import of a large torch, which reads gigabytes."""


def probe_torch(
    python: str, environ: Mapping[str, str], *, limit: float | None = None
) -> Installed:
    """Imports the torch of an interpreter, and asks it for its support of SwitchML.

    Args:
        python: path of the interpreter.
        environ: all of its environment.
        limit: seconds for the import. Without one, the interpreter first has to answer without
            torch, so that a program that never answers is found soon.

    Raises:
        ToolError: the program cannot be started, or is no Python interpreter.
    """
    if limit is None:
        interpreter.ask(python, environ)
    return read_answers(interpreter.ask(python, environ, torch=True, limit=limit or IMPORT_LIMIT))
