"""Programs that serve until a signal stops them, and then print their counters."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import click

from patchgen.cli import path_types
from patchgen.cli.console import say_all
from patchgen.errors import ToolError, file_errors
from patchgen.system import files, signals
from patchgen.system.ports import split_address
from patchgen.system.process import ERR, Program, stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from patchgen.cli.params import Command

_GRACE = 10.0  # seconds

counters_option = click.option(
    "--json", "target", type=path_types.OUTPUT_FILE, metavar="FILE",
    help="Write the counters to this file as JSON.",
)  # fmt: skip


def listen_option(address: str) -> Callable[[Command], Command]:
    """Return the option --listen, for an address of this form."""
    return click.option(
        "--listen", metavar="ADDR", default="127.0.0.1:50099", show_default=True,
        callback=_check_address,
        help=f"Address to listen on: {address}; port 0 takes a free port.",
    )  # fmt: skip


def _check_address(_context: object, _option: object, text: str) -> str:
    try:
        split_address(text, lowest=0)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    return text


def run(
    command: Sequence[str],
    target: str | None,
    lines: Callable[[Mapping[str, Any]], Iterable[str]],
    name: str,
) -> None:
    """Run a program until Ctrl-C or a signal stops it, which is its usual end.

    Args:
        command: program that prints its address as JSON on stdout, and writes its counters to the
            file of --json when it ends.
        target: file for the counters; None for a temporary file.
        lines: formats the counters for people.
        name: of the program, for messages.

    Raises:
        FileError: the file cannot be written.
        ToolError: the program ended by itself, or without its counters.
    """
    with files.scratch("counters") as directory:
        counters = os.path.abspath(target) if target else os.path.join(directory, "counters.json")
        before = _written(counters)
        program = Program([*command, f"--json={counters}"], supervised=True, grace=_GRACE)
        stopped = True
        with signals.serving():
            stream(program, _show, limit=None)
            stopped = False
        written = _written(counters) != before
        if written:
            with file_errors(), open(counters, encoding="utf-8") as file:
                say_all(["", *lines(json.load(file))])
        if not (stopped and written):
            how = "without its counters" if stopped else "by itself"
            raise ToolError(f"{name} has ended {how}; why stands above")


def _show(source: str, line: bytes) -> None:
    if source == ERR:
        click.echo(line, nl=False, err=True)
    else:
        click.echo(f"listening on {json.loads(line)['listening']}")


def _written(path: str) -> int | None:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return None
