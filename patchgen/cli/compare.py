"""compare: two wheels, file by file."""

from __future__ import annotations

import collections
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from patchgen.cli.console import print_json
from patchgen.cli.params import json_option
from patchgen.errors import CheckError
from patchgen.system import paths

if TYPE_CHECKING:
    from patchgen.build.compare import Difference

_SHOWN = 10  # differences of one kind that change no file


@click.command()
@click.argument("left", metavar="A.whl", type=click.Path())
@click.argument("right", metavar="B.whl", type=click.Path())
@json_option
def compare(left: str, right: str, *, as_json: bool) -> None:
    """Compares two wheels file by file.

    Exit code 0 where every file has the same contents and mode, even if the archives differ in
    times, order or compression, which is told; else 6.
    """
    from patchgen.build import compare as wheels  # no other command needs it

    found = wheels.compare(left, right)
    same = not any(difference.of_file for difference in found)
    if as_json:
        differences = [{**asdict(one), "kind": one.kind.value} for one in found]
        print_json({"same": same, "identical": not found, "differences": differences})
    else:
        _show(found, left, right)
    if not same:
        click.get_current_context().exit(CheckError.exit_code)


def _show(found: list[Difference], left: str, right: str) -> None:
    told: collections.Counter[str] = collections.Counter()
    for difference in found:
        kind = difference.kind.value
        told[kind] += not difference.of_file
        if told[kind] <= _SHOWN:
            click.echo(_line(difference, left, right))
    for kind, count in told.items():
        if count > _SHOWN:
            click.echo(f"{kind}: {count - _SHOWN} more; --json tells all of them")
    differing = len({difference.path for difference in found if difference.of_file})
    if not found:
        click.echo("identical bytes")
    elif not differing:
        click.echo("the same in every file; the archives differ")
    else:
        click.echo(f"{differing} file{'s differ' if differing > 1 else ' differs'}")


def _line(difference: Difference, left: str, right: str) -> str:
    name = paths.printable(difference.path)
    if difference.left is None or difference.right is None:
        where, there = (left, difference.left) if difference.left else (right, difference.right)
        return f"{name}: only in {where}: {there}"
    line = f"{name or 'archive'}: {difference.kind.value}: {difference.left} | {difference.right}"
    if difference.offset is not None:
        line += f"; from byte {difference.offset}"
    if difference.sections:
        line += f"; in {' '.join(difference.sections)}"
    return line
