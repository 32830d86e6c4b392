"""compare: the differences between two wheels, as a table."""

from __future__ import annotations

import collections
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from patchgen.cli import path_types
from patchgen.cli.console import Command, end, print_json
from patchgen.cli.params import json_option
from patchgen.errors import CheckError
from patchgen.system import paths, tables

if TYPE_CHECKING:
    from patchgen.core.wheel.compare import Difference, Value

_SHOWN = 10  # differences of one kind that change no file
_DIGITS = 12  # of a SHA-256 in the table; --json prints all


@click.command(cls=Command)
@click.argument("left", metavar="A.whl", type=path_types.Named())
@click.argument("right", metavar="B.whl", type=path_types.Named())
@json_option
def compare(left: str, right: str, *, as_json: bool) -> None:
    """Compare two wheels file by file.

    Exits with 0 if every file has the same contents and mode, else with 6. Other differences of the
    archives, such as times, order or compression, are shown but do not count.
    """
    from patchgen.core.wheel import compare as wheels

    found = wheels.compare(left, right)
    same = not any(difference.of_file for difference in found)
    if as_json:
        differences = [{**asdict(one), "kind": one.kind.value} for one in found]
        print_json({"same": same, "identical": not found, "differences": differences})
    else:
        show(found)
    if not same:
        end(CheckError.exit_code)


def show(found: list[Difference]) -> None:
    """Print differences as a table, and the number of files that differ."""
    counts: collections.Counter[str] = collections.Counter()
    rows = []
    for difference in found:
        kind = difference.kind.value
        counts[kind] += not difference.of_file
        if counts[kind] <= _SHOWN:
            rows.append(_row(difference))
    if rows:
        for line in tables.lines(("file", "differs", "A", "B"), rows, words=4):
            click.echo(line)
    for kind, count in counts.items():
        if count > _SHOWN:
            click.echo(f"{kind}: {count - _SHOWN} more; --json lists all of them")
    differing = len({difference.path for difference in found if difference.of_file})
    if not found:
        click.echo("identical bytes")
    elif not differing:
        click.echo("every file is the same; the archives differ")
    else:
        click.echo(f"{differing} file{'s differ' if differing > 1 else ' differs'}")


def _row(difference: Difference) -> tuple[str, str, str, str]:
    where = "" if difference.offset is None else f" from byte {difference.offset}"
    return (
        paths.printable(difference.path) or "(archive)",
        f"{difference.kind.value}{where}",
        _cell(difference.left),
        _cell(difference.right),
    )


def _cell(value: Value) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return paths.printable(value)
    return f"{value.size} bytes, sha256 {value.sha256[:_DIGITS]}"
