"""Progress of a command: a line for each step that the package logs, and the elapsed time."""

from __future__ import annotations

import logging
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Callable

    from rich.progress import Progress

_LOGGER = logging.getLogger("patchgen")
_SHORT = 90  # seconds; a longer time is printed in minutes


class Steps(logging.Handler):
    """Log handler that prints a line for each step, and a progress bar on a terminal.

    As a context it shows what the package logs while the block runs. Its records are those of
    `system.progress`.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__(logging.INFO)
        self._say = say
        self._shown: Progress | None = None
        self._step = ""
        self._begun = 0.0
        self._tenth = -1

    def __enter__(self) -> None:
        _LOGGER.addHandler(self)
        _LOGGER.setLevel(logging.INFO)

    def __exit__(self, *_: object) -> None:
        _LOGGER.removeHandler(self)
        self._finish()

    def emit(self, record: logging.LogRecord) -> None:
        """Show the beginning of a step, or how much of it is done."""
        total = getattr(record, "total", None)
        if total is None:
            self._begin(record.getMessage())
        else:
            self._count(record.__dict__["done"], total)

    def _begin(self, step: str) -> None:
        self._finish()
        self._step, self._begun, self._tenth = step, time.monotonic(), -1
        if not sys.stderr.isatty():
            self._say(step)
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._shown = Progress(
            TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn(),
            console=Console(stderr=True), transient=True,
        )  # fmt: skip
        self._shown.add_task(step, total=None)
        self._shown.start()

    def _count(self, done: float, total: float) -> None:
        tenth = int(10 * done / total) if total else 0
        if self._shown is not None:
            text = f"{self._step} {done:.0f}/{total:.0f}"
            (task,) = self._shown.task_ids
            self._shown.update(task, description=text, completed=done, total=total)
        elif tenth != self._tenth:
            self._say(f"  {done:.0f} of {total:.0f}, {_minutes(time.monotonic() - self._begun)}")
        self._tenth = tenth

    def _finish(self) -> None:
        if self._shown is not None:
            self._shown.stop()
            self._shown = None
            self._say(self._step)


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < _SHORT else f"{seconds / 60:.0f} min"
