"""What people and scripts see: help, lines, data, progress and checks."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import time
from typing import TYPE_CHECKING, Any, Callable, TextIO

import click

from patchgen.checks import hold
from patchgen.errors import CheckError, FileError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rich.progress import Progress

    from patchgen.checks import Check

_LOGGER = logging.getLogger("patchgen")
_SHORT = 90  # seconds, which are not told in minutes
_SENTENCE = 80  # characters of what a command is for
_SHOWN = 10  # problems of one check
_OPTIONS = "Options"


class Group(click.Group):
    """Lists its commands with what each is for, uncut."""

    def sections(self, ctx: click.Context) -> Mapping[str, Sequence[str]]:
        """The names of the commands, by the headings of the list."""
        return {"Commands": self.list_commands(ctx)}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the list of commands."""
        for heading, names in self.sections(ctx).items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(heading):
                formatter.write_dl(
                    [(name, one.get_short_help_str(_SENTENCE)) for name, one in commands if one]
                )


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

_MANY = 10  # options that are read as one list


class Option(click.Option):
    """Option that names the heading that it is listed under where a command has many."""

    def __init__(self, *args: Any, group: str | None = None, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.group = group


def option(*names: str, group: str | None = None, **attributes: Any) -> Decorator:
    """Decorator that adds an option to a command.

    Args:
        names: of the option, and of its parameter.
        group: its heading in the help of a command with many options.
        attributes: as in click.
    """
    return click.option(*names, cls=Option, group=group, **attributes)


class Command(click.Command):
    """Lists its options under their headings where there are many."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the list of options, those without a heading first."""
        records = [
            (getattr(parameter, "group", None) or _OPTIONS, record)
            for parameter in self.get_params(ctx)
            if isinstance(parameter, click.Option)
            and (record := parameter.get_help_record(ctx)) is not None
        ]
        sections: dict[str, list[tuple[str, str]]] = {_OPTIONS: []}
        for heading, record in records:
            sections.setdefault(heading if len(records) > _MANY else _OPTIONS, []).append(record)
        for heading, rows in sections.items():
            with formatter.section(heading):
                formatter.write_dl(rows)


def say(line: str) -> None:
    """One line for people."""
    click.echo(line, err=True)


def say_all(lines: Iterable[str]) -> None:
    """Lines for people."""
    for line in lines:
        say(line)


def unwritable(error: OSError) -> FileError:
    """The error of standard output that could not be written, which is closed."""
    with contextlib.suppress(OSError):
        sys.stdout.close()  # else what is left in it is tried again
    return FileError(f"the output cannot be written: {error.strerror}")


def write_bytes(stream: TextIO, content: bytes) -> None:
    """Writes bytes to a standard stream.

    Raises:
        FileError: it cannot be written.
    """
    try:
        stream.buffer.write(content)
        stream.buffer.flush()
    except OSError as error:
        raise unwritable(error) from error


def print_json(data: object) -> None:
    """Data for scripts."""
    click.echo(json.dumps(data, indent=2))


class Steps(logging.Handler):
    """Draws what the package logs: a line for each step, and on a terminal how far the present is.

    Its records are those of `system.progress`.
    """

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._shown: Progress | None = None
        self._step = ""
        self._begun = 0.0
        self._tenth = -1

    def emit(self, record: logging.LogRecord) -> None:
        """Shows a record."""
        total = getattr(record, "total", None)
        if total is None:
            self._begin(record.getMessage())
        else:
            self._count(record.__dict__["done"], total, getattr(record, "left", None))

    def _begin(self, step: str) -> None:
        self._finish()
        self._step, self._begun, self._tenth = step, time.monotonic(), -1
        if not sys.stderr.isatty():
            say(step)
            return
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._shown = Progress(
            SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn(),
            console=Console(stderr=True), transient=True,
        )  # fmt: skip
        self._shown.add_task(step)
        self._shown.start()

    def _count(self, done: float, total: float, left: float | None) -> None:
        tenth = int(10 * done / total) if total else 0
        if left is None and done:
            left = (time.monotonic() - self._begun) / done * (total - done)
        about = f", about {_minutes(left)} left" if left is not None and left >= 1 else ""
        if self._shown is not None:
            (task,) = self._shown.task_ids
            self._shown.update(task, description=f"{self._step} {done:.0f}/{total:.0f}{about}")
        elif tenth != self._tenth:
            say(f"  {done:.0f} of {total:.0f}{about}")
        self._tenth = tenth

    def _finish(self) -> None:
        if self._shown is not None:
            self._shown.stop()
            self._shown = None
            say(self._step)

    def close(self) -> None:
        """Ends the last step."""
        self._finish()
        super().close()


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < _SHORT else f"{seconds / 60:.0f} min"


@contextlib.contextmanager
def progress() -> Iterator[None]:
    """Shows the steps of a block, as the package logs them."""
    shown = Steps()
    _LOGGER.addHandler(shown)
    _LOGGER.setLevel(logging.INFO)
    try:
        yield
    finally:
        _LOGGER.removeHandler(shown)
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
    click.echo(f"[{'x' if check.ok else ' ' if check.required else '-'}] {check.name}{found}")
    for problem in check.problems[:_SHOWN]:
        click.echo(f"      {problem}")
    if len(check.problems) > _SHOWN:
        click.echo(f"      and {len(check.problems) - _SHOWN} more")
