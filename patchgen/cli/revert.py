"""revert: a patched tree, as it was."""

from __future__ import annotations

import click

from patchgen.cli.console import Command, say_all
from patchgen.cli.params import known_pins, pytorch_option
from patchgen.core.patch import report
from patchgen.core.patch import tree as trees
from patchgen.system import paths


@click.command(cls=Command)
@click.argument("tree", type=click.Path())
@pytorch_option
def revert(tree: str, pytorch: str | None) -> None:
    """Takes a patched, or partly patched, tree back to what it was."""
    result = trees.revert(paths.from_native(tree), *known_pins(pytorch))
    say_all(report.result_lines(result, "unpatched"))
