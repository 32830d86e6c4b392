"""Metrics of running ranks: a table that is drawn anew, or lines."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Protocol

from patchgen.cli.console import say
from patchgen.errors import OptionsError, file_errors
from patchgen.extras.train import metrics
from patchgen.system import files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.table import Table

    from patchgen.extras.train.job import Job
    from patchgen.extras.train.metrics import Metrics
    from patchgen.extras.train.start import Line

    Output = Callable[[Line], None]

_SECONDS = 1  # between two looks
_QUIET = 10.0  # seconds between two lines about a rank
_NONE = (
    "metrics: no rank has written any; was a process group made, and the torch patched by this "
    "version?"
)


class Display(Protocol):
    """Display of the metrics, and of what the ranks write."""

    def show(self, ranks: Sequence[Metrics], *, last: bool = False) -> None:
        """Shows the metrics, perhaps later unless they are the last."""

    def write(self, line: Line) -> None:
        """Writes a line of a rank."""


@contextlib.contextmanager
def watched(job: Job, output: Output) -> Iterator[tuple[Job, Output]]:
    """Shows the metrics of a job's ranks while the block lasts.

    Args:
        job: the job.
        output: writes a line of a rank.

    Yields:
        The job whose ranks write metrics, and what is to write their lines.

    Raises:
        OptionsError: the user's directory for metrics is none.
    """
    with contextlib.ExitStack() as stack:
        directory = job.environ.get(metrics.DIRECTORY)
        if directory and not os.path.isdir(directory):
            raise OptionsError(f"{metrics.DIRECTORY}: {directory}: no such directory; make it")
        own = {metrics.SECONDS: str(_SECONDS), **job.environ}
        with file_errors():
            own[metrics.DIRECTORY] = directory or stack.enter_context(files.scratch("metrics"))
            pages = metrics.Pages(own[metrics.DIRECTORY])
        terminal = sys.stdout.isatty() and sys.stderr.isatty()
        display = stack.enter_context(_shown_table(job)) if terminal else Lines(output)
        stack.enter_context(_followed(pages, display))
        yield dataclasses.replace(job, environ=own), display.write


@contextlib.contextmanager
def _followed(pages: metrics.Pages, display: Display) -> Iterator[None]:
    """Shows pages as they change, by a thread, while the block lasts."""
    over = threading.Event()

    def follow() -> None:
        with contextlib.suppress(OSError):  # the directory is gone, or nobody reads the lines
            while not over.wait(_SECONDS):
                display.show(pages.read())

    thread = threading.Thread(target=follow, name="metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        with contextlib.suppress(OSError):
            display.show(pages.read(), last=True)


class Lines:
    """Display by lines, for logs."""

    def __init__(self, output: Output) -> None:
        self.write = output
        self._told: dict[int, tuple[float, str]] = {}

    def show(self, ranks: Sequence[Metrics], *, last: bool = False) -> None:
        """Writes a line about each rank that has changed since its last line, some time ago."""
        now = time.monotonic()
        for rank in ranks:
            when, line = self._told.get(rank.rank, (-_QUIET, ""))
            if line != rank.line and (last or now - when >= _QUIET):
                say(rank.line)
                self._told[rank.rank] = now, rank.line
        if last and not ranks:
            say(_NONE)


@contextlib.contextmanager
def _shown_table(job: Job) -> Iterator[Display]:
    """Table below what the ranks write, on the terminal."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(stderr=True, highlight=False)
    several = job.workers > 1

    class Drawn:
        def show(self, ranks: Sequence[Metrics], *, last: bool = False) -> None:
            if ranks:
                live.update(_draw(ranks), refresh=True)
            elif last:
                console.print(_NONE, markup=False)

        def write(self, line: Line) -> None:
            if line.text.endswith(b"\r"):
                return  # the next one takes its place
            text = Text.from_ansi(line.text.decode(errors="replace").rstrip("\r\n"))
            prefix = f"[{line.rank}] " if several and line.rank is not None else ""
            console.print(Text(prefix) + text, soft_wrap=True)

    with Live("", console=console, auto_refresh=False) as live:
        yield Drawn()


def _draw(ranks: Sequence[Metrics]) -> Table:
    """The metrics as a table of a terminal."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for number, heading in enumerate(metrics.HEADINGS):
        table.add_column(heading, justify="left" if number <= 1 else "right")
    for rank in ranks:
        table.add_row(*rank.cells)
    return table
