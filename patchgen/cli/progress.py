"""Long steps: a line each, and on a terminal the seconds that the present one has taken."""

from __future__ import annotations

import contextlib
import shutil
import sys
import threading
import time
from typing import TYPE_CHECKING

from patchgen.cli.common import say

if TYPE_CHECKING:
    from collections.abc import Iterator

_CLEAR_LINE = "\r\x1b[2K"
_BAR = 20  # columns
_SHORT = 90  # seconds, which are not told in minutes


class Progress:
    """Called with the name of each step as it begins."""

    def __init__(self) -> None:
        self._step = ""
        self._begun = 0.0
        self._counted = (0, 0)
        self._lock = threading.Lock()

    def __call__(self, step: str) -> None:
        """Shows that a step begins; the one before it has ended."""
        with self._lock:
            self._finish()
            self._step, self._begun, self._counted = step, time.monotonic(), (0, 0)
            if not sys.stderr.isatty():
                say(step)

    def count(self, done: int, total: int) -> None:
        """Shows how far the step is: on a terminal as a bar, else a line for every tenth."""
        with self._lock:
            tenth = 10 * done // total if total else 0
            before, whole = self._counted
            again = total != whole  # another run of ninja
            if not sys.stderr.isatty() and (again or tenth > 10 * before // whole):
                say(f"  {done} of {total}")
            self._counted = (done, total)

    def tick(self) -> None:
        """Shows the step with its seconds, in place."""
        with self._lock:
            if self._step:
                seconds = time.monotonic() - self._begun
                shown = f"{self._step} {self._bar(seconds)}... {seconds:.0f} s"
                room = shutil.get_terminal_size().columns - 1  # one more begins another line
                sys.stderr.write(f"{_CLEAR_LINE}{shown[:room]}")
                sys.stderr.flush()

    def _bar(self, seconds: float) -> str:
        done, total = self._counted
        if not done:
            return ""
        filled = _BAR * done // total
        left = seconds / done * (total - done)
        return (
            f"[{'#' * filled}{'.' * (_BAR - filled)}] {done}/{total}, "
            f"about {f'{left:.0f} s' if left < _SHORT else f'{left / 60:.0f} min'} left "
        )

    def _finish(self) -> None:
        if self._step and sys.stderr.isatty():
            sys.stderr.write(_CLEAR_LINE)
            say(self._step)
        self._step = ""

    def close(self) -> None:
        """Ends the last step."""
        with self._lock:
            self._finish()


@contextlib.contextmanager
def progress() -> Iterator[Progress]:
    """Progress for the length of a block."""
    shown = Progress()
    done = threading.Event()

    def run() -> None:
        while not done.wait(0.5):
            shown.tick()

    ticker = threading.Thread(target=run, daemon=True)
    if sys.stderr.isatty():
        ticker.start()
    try:
        yield shown
    finally:
        done.set()
        if ticker.is_alive():
            ticker.join()
        shown.close()
