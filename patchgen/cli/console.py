"""Output for people and scripts: help, lines, JSON, progress and checks."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Callable, NoReturn

import click

from patchgen.errors import CheckError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from patchgen.system.checks import Check

NAME = "switchml-patch"
"""Name of this program, also in messages, which are printed with how a shell starts it."""
_SENTENCE = 80  # characters of a command's summary
_SHOWN = 10  # problems that are printed of a check
_OPTIONS = "Options"


class Group(click.Group):
    """Group whose help lists each command with its whole summary."""

    def sections(self, ctx: click.Context) -> Mapping[str, Sequence[str]]:
        """Return the names of the commands by heading."""
        return {"Commands": self.list_commands(ctx)}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands."""
        for heading, names in self.sections(ctx).items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(heading):
                formatter.write_dl(
                    [(name, one.get_short_help_str(_SENTENCE)) for name, one in commands if one]
                )


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

_MANY = 10  # options that need no headings


class Option(click.Option):
    """Option with a heading, which the help of a command with many options lists it under."""

    def __init__(self, *args: Any, group: str | None = None, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.group = group


def option(*names: str, group: str | None = None, **attributes: Any) -> Decorator:
    """Return a decorator that adds an option to a command, as click's; `group` is its heading."""
    return click.option(*names, cls=Option, group=group, **attributes)


def completing(list_names: Callable[[], Iterable[str]]) -> Callable[..., list[str]]:
    """Return a `shell_complete` function of click that completes these names."""
    return lambda _context, _option, begun: [one for one in list_names() if one.startswith(begun)]


class Command(click.Command):
    """Command whose help lists many options under headings."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of options, beginning with those without a heading."""
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


def end(code: int) -> NoReturn:
    """End the command with an exit code."""
    raise click.exceptions.Exit(code)


def program() -> str:
    """Return how a shell starts this program: by its name if that is on PATH, else by its path."""
    path = os.path.realpath(sys.argv[0])
    if os.path.basename(path) != NAME:  # python -m patchgen
        path = os.path.join(os.path.dirname(sys.executable), NAME)
    if not os.path.exists(path):
        return f"{shlex.quote(sys.executable)} -m patchgen"
    found = shutil.which(NAME)
    return NAME if found and os.path.samefile(found, path) else shlex.quote(path)


def copyable(line: str) -> str:
    """Return a line whose commands of this program can be copied into a shell."""
    context = click.get_current_context(silent=True)
    root = context.find_root().command if context and NAME in line else None
    if context is None or not isinstance(root, click.Group):
        return line
    commands = "|".join(root.list_commands(context))
    return re.sub(rf"(?<![\w./-]){NAME}(?= ({commands})\b)", lambda _: program(), line)


def say(line: str) -> None:
    """Print a line for people on stderr."""
    click.echo(copyable(line), err=True)


def show(line: str) -> None:
    """Print a line for people on stdout."""
    click.echo(copyable(line))


def say_all(lines: Iterable[str]) -> None:
    """Print lines for people on stderr."""
    for line in lines:
        say(line)


def print_json(data: object) -> None:
    """Print data for scripts on stdout."""
    click.echo(json.dumps(data, indent=2))


def print_result(lines: Iterable[str], data: object, *, as_json: bool) -> None:
    """Print a result on stdout: lines for people, or data for scripts."""
    if as_json:
        print_json(data)
        return
    for line in lines:
        show(line)


def progress() -> AbstractContextManager[object]:
    """Show each step that the package logs while the block runs."""
    from patchgen.cli.steps import Steps

    return Steps(say)


def show_checks(checks: Sequence[Check], *, as_json: bool, **about: object) -> None:
    """Print checks, and end the command with 6 if a required check fails."""
    from patchgen.system.checks import find_failed

    failed = find_failed(checks)
    if as_json:
        print_json({**about, "ok": not failed, "checks": [data(check) for check in checks]})
    else:
        for check in checks:
            _show_one(check)
    if failed:
        end(CheckError.exit_code)


def data(check: Check) -> dict[str, object]:
    """Return a check as data for JSON."""
    return {**asdict(check), "ok": check.ok}


def _show_one(check: Check) -> None:
    found = f": {check.found}" if check.found else ""
    show(f"[{'x' if check.ok else ' ' if check.required else '-'}] {check.name}{found}")
    for problem in check.problems[:_SHOWN]:
        show(f"      {problem}")
    if len(check.problems) > _SHOWN:
        show(f"      and {len(check.problems) - _SHOWN} more")
