"""A program beside another one: a server that is ready before the other starts, and ends after."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import replace

from patchgen.errors import ToolError
from patchgen.system.process import OUT, NoAnswer, Program, stream
from patchgen.system.program import CompletedRun

_KEPT = 1 << 16  # last bytes of its stderr


class Companion:
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
        """Runs the program to its end."""
        try:
            self._code = stream(self.program, self._take_line, limit=None, stop=self.stop)
        except NoAnswer:
            pass  # it was asked to end, and did or was killed
        except BaseException as error:  # noqa: BLE001  # raised again where it can be told
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
        """Waits for the first line.

        Raises:
            ToolError: it cannot be started, ended before, or wrote none within `limit` seconds.
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
def beside(program: Program, *, limit: float) -> Iterator[Companion]:
    """Runs a program for as long as the block lasts, which begins once it has written a line.

    At the end of the block it gets SIGTERM, and its grace period to end. It is supervised, so it
    ends as well where this process is killed.

    Args:
        program: writes its first line to stdout when others may rely on it.
        limit: seconds for that.

    Raises:
        ToolError: it cannot be started, ended before its first line, or wrote none in time.
    """
    companion = Companion(replace(program, supervised=True))
    thread = threading.Thread(target=companion.run, daemon=True)
    thread.start()
    try:
        companion.wait_for_line(limit)
        yield companion
    finally:
        companion.stop.set()
        thread.join()
