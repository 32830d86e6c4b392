"""What people and scripts see: lines, data, progress, checks, and errors as exit codes."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import click

from patchgen.checks import hold
from patchgen.errors import EXIT_CODES, CheckError, InterruptedRun, PatchgenError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from patchgen.checks import Check

EPILOG = "\b\nExit codes:\n" + "\n".join(
    f"  {code:>3}  {meaning}" for code, meaning in EXIT_CODES.items()
)

_CLEAR_LINE = "\r\x1b[2K"
_BAR = 20  # columns
_SHORT = 90  # seconds, which are not told in minutes
_SHOWN = 10  # problems of one check


class Main(click.Group):
    """Turns what a user can mend into one or two lines and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:  # as in click
        """Runs a command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            error: PatchgenError = InterruptedRun("interrupted")
        except PatchgenError as caught:
            error = caught
        say(str(error) if isinstance(error, InterruptedRun) else f"error: {error}")
        return ctx.exit(error.exit_code)


def say(line: str) -> None:
    """One line for people."""
    click.echo(line, err=True)


def say_all(lines: Iterable[str]) -> None:
    """Lines for people."""
    for line in lines:
        say(line)


def print_json(data: object) -> None:
    """Data for scripts."""
    click.echo(json.dumps(data, indent=2))


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


def show_checks(checks: Sequence[Check], *, as_json: bool, **about: object) -> None:
    """Prints the checks, and ends the command with 6 where one that is required does not hold."""
    if as_json:
        print_json({**about, "ok": hold(checks), "checks": [data(check) for check in checks]})
    else:
        for check in checks:
            _show_one(check)
    if not hold(checks):
        click.get_current_context().exit(CheckError.exit_code)


def data(check: Check) -> dict[str, object]:
    """A check for scripts."""
    return {
        "name": check.name,
        "ok": check.ok,
        "required": check.required,
        "found": check.found,
        "problems": list(check.problems),
    }


def _show_one(check: Check) -> None:
    found = f": {check.found}" if check.found else ""
    click.echo(f"[{'x' if check.ok else ' '}] {check.name}{found}")
    for problem in check.problems[:_SHOWN]:
        click.echo(f"      {problem}")
    if len(check.problems) > _SHOWN:
        click.echo(f"      and {len(check.problems) - _SHOWN} more")
