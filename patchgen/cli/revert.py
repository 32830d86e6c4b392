"""revert: a patched tree, as it was."""

from __future__ import annotations

from dataclasses import dataclass

import click

from patchgen.cli.console import Command, say_all
from patchgen.cli.params import into, known_pins, pytorch_option
from patchgen.core.patch import report
from patchgen.core.patch import tree as trees
from patchgen.system import paths


@dataclass(frozen=True)
class _Request:
    tree: str
    pytorch: str | None


@click.command(cls=Command)
@click.argument("tree", type=click.Path())
@pytorch_option
@into(_Request)
def revert(request: _Request) -> None:
    """Takes a patched, or partly patched, tree back to what it was."""
    result = trees.revert(paths.from_native(request.tree), *known_pins(request.pytorch))
    say_all(report.result_lines(result, "unpatched"))
