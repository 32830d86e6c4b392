"""Diffoscope: what differs within files, where that program is installed."""

from __future__ import annotations

import logging
import shutil
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from patchgen.errors import PatchgenError
from patchgen.system import files, paths, process
from patchgen.system.process import OUT, CompletedRun, NoAnswer, Program

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_LOGGER = logging.getLogger(__name__)
_NAME = "diffoscope"
_SECONDS = 600.0
"""Time that it gets for all files. It disassembles and unpacks, and has no end of its own."""
_SIZE = 1 << 16
"""Characters that are shown of each pair of files."""


def describe(pairs: Sequence[tuple[str, str]], environ: Mapping[str, str]) -> Iterator[str]:
    """Describes in lines how files differ. A failure is a line too.

    Args:
        pairs: paths of two files each.
        environ: environment of the user.
    """
    program = shutil.which(_NAME, path=environ.get("PATH"))
    if program is None:
        yield f"{_NAME} is not installed; it would show the difference within"
        return
    _LOGGER.info("running %s for at most %.0f minutes", _NAME, _SECONDS / 60)
    deadline = time.monotonic() + _SECONDS
    try:
        with files.scratch(_NAME) as scratch:  # else what it unpacked stays where it is ended
            for pair in pairs:
                asked = Program(
                    [program, "--max-text-report-size", str(_SIZE), *pair],
                    env={**environ, "TMPDIR": scratch}, supervised=True,
                )  # fmt: skip
                yield from _run(asked, max(deadline - time.monotonic(), 0))
    except NoAnswer:
        yield f"{_NAME}: not done after {_SECONDS:g} s"
    except PatchgenError as error:
        yield f"{_NAME}: {error.reason}"


@dataclass
class _Report:
    """Lines of a report, up to its limit."""

    lines: list[str] = field(default_factory=list)
    left: int = _SIZE
    cut: int = 0
    """Number of lines that were left out."""
    error: str = ""
    """Last line of what was written to stderr."""

    def take(self, name: str, line: bytes) -> None:
        """Takes a line that the program has written."""
        text = paths.printable(paths.decode(line.rstrip()))
        if name != OUT:
            self.error = text
            return
        self.left -= len(text)
        if self.left < 0:
            self.cut += 1
        else:
            self.lines.append(text)


def _run(program: Program, limit: float) -> Iterator[str]:
    """Runs it; yields its report.

    Raises:
        ToolError: it cannot be started, or took too long.
    """
    report = _Report()
    code = process.stream(program, report.take, limit=limit)
    yield from report.lines
    if report.cut:
        yield f"and {report.cut} more lines; run: {program.line}"
    if code not in {0, 1}:  # 1 says that there is a difference
        how = CompletedRun(code, b"", b"").how
        yield f"{_NAME} failed: {report.error or how}"
