"""status: whether a tree is patched, and how."""

from __future__ import annotations

from dataclasses import dataclass

import click

from patchgen.cli.console import Command, end, print_json
from patchgen.cli.params import into, json_option, known_pins, pytorch_option
from patchgen.core.patch import report, state
from patchgen.errors import TreeError
from patchgen.system import paths


@dataclass(frozen=True)
class _Request:
    """Request of `status`."""

    tree: str
    pytorch: str | None
    as_json: bool


@click.command(cls=Command)
@click.argument("tree", type=click.Path())
@pytorch_option
@json_option
@into(_Request)
def status(request: _Request) -> None:
    """Tells whether a PyTorch tree is patched, and how.

    It is clean, patched, partly patched, or something else. Exits with 0 where
    it is clean or patched, else with 3.
    """
    known, wanted = known_pins(request.pytorch)
    found = state.inspect(paths.from_native(request.tree), (wanted,) if wanted else known)
    if request.as_json:
        print_json(report.state_data(found))
    else:
        for line in report.state_lines(found):
            click.echo(line)
    if found.overall not in (state.Overall.CLEAN, state.Overall.PATCHED):
        end(TreeError.exit_code)
