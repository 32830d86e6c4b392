"""A program that serves until a signal ends it, and then tells what it has counted."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

from patchgen.cli.console import say_all
from patchgen.errors import ToolError, file_errors
from patchgen.system import files
from patchgen.system.process import Program, stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_GRACE = 10.0  # seconds


def serve(
    command: Sequence[str],
    target: str | None,
    lines: Callable[[Mapping[str, Any]], Iterable[str]],
    name: str,
) -> None:
    """Runs a program to its end.

    Args:
        command: it writes its counters into the file of --json when it ends.
        target: that file; None: one that nobody sees.
        lines: of the counters, for people.
        name: of the program, for messages.

    Raises:
        FileError: the file cannot be written.
        ToolError: the program ended by itself.
    """
    with files.scratch("counters") as directory:
        counters = os.path.abspath(target) if target else os.path.join(directory, "counters.json")
        with file_errors():
            os.stat(os.path.dirname(counters))  # rather now than after hours
        before = _written(counters)
        program = Program([*command, f"--json={counters}"], supervised=True, grace=_GRACE)
        try:
            code = stream(program, _show, limit=None)
        finally:  # it is a signal that ends it
            if _written(counters) != before:
                with file_errors(), open(counters, encoding="utf-8") as file:
                    say_all(["", *lines(json.load(file))])
        if code:
            raise ToolError(f"{name} has ended; why stands above")


def _show(source: str, line: bytes) -> None:
    out = (sys.stderr if source == "err" else sys.stdout).buffer
    out.write(line)
    out.flush()


def _written(path: str) -> int | None:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return None
