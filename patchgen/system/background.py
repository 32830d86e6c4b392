"""Runs a server beside another program: it is ready before the other starts, and ends after."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import replace

from patchgen.errors import ToolError
from patchgen.system.process import OUT, NoAnswer, Program, stream
from patchgen.system.program import CompletedRun

_KEPT = 1 << 16  # bytes of stderr that are kept


class BackgroundProgram:
    """A program that runs while a block lasts."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.line = ""
        """First line of its stdout, without the line's end."""
        self.over = threading.Event()
        """Event that is set once the program has ended, by itself or on request."""
        self.stop = threading.Event()
        """Event that asks the program to end."""
        self._ready = threading.Event()
        self._err = b""
        self._code = 0
        self._error: BaseException | None = None

    @property
    def completed(self) -> CompletedRun:
        """End of the program, with the last of its stderr."""
        return CompletedRun(self._code, b"", self._err)

    def run(self) -> None:
        """Run the program to its end."""
        try:
            self._code = stream(self.program, self._take_line, limit=None, stop=self.stop)
        except NoAnswer:
            pass  # it ended on request
        except BaseException as error:  # noqa: BLE001  # raised again by `wait_for_line`
            self._error = error
        finally:
            self.over.set()
            self._ready.set()

    def _take_line(self, source: str, line: bytes) -> None:
        if source == OUT:
            if not self._ready.is_set():
                self.line = line.decode(errors="replace").strip()
                self._ready.set()
        else:
            self._err = (self._err + line)[-_KEPT:]

    def wait_for_line(self, limit: float) -> None:
        """Wait for the first line on stdout.

        Raises:
            ToolError: the program cannot be started, ended, or wrote no line within `limit`
                seconds.
        """
        if not self._ready.wait(limit):
            raise ToolError(f"{self.program.line}: not ready in {limit:g} s")
        if self._error is not None:
            raise self._error
        if not self.line:
            completed = self.completed
            lines = [f"{self.program.line}: {completed.how or 'ended'}", *completed.last_lines(3)]
            raise ToolError("\n".join(lines))


@contextlib.contextmanager
def beside(program: Program, *, limit: float) -> Iterator[BackgroundProgram]:
    """Run a program while the block lasts, which begins once the program has written a line.

    After the block it gets SIGTERM, then its grace period. It is supervised, so it also ends if
    this process is killed.

    Raises:
        ToolError: the program cannot be started, ended, or wrote no line within `limit` seconds.
    """
    running = BackgroundProgram(replace(program, supervised=True))
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    try:
        running.wait_for_line(limit)
        yield running
    finally:
        running.stop.set()
        thread.join()
