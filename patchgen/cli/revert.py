"""revert: remove the patch from a tree."""

from __future__ import annotations

import click

from patchgen.cli import path_types
from patchgen.cli.console import Command, say_all
from patchgen.cli.params import known_pins, pytorch_option
from patchgen.core.patch import report
from patchgen.core.patch import tree as trees
from patchgen.system import paths


@click.command(cls=Command)
@click.argument("tree", type=path_types.Named())
@pytorch_option
def revert(tree: str, pytorch: str | None) -> None:
    """Restore the original files of a tree that is patched, wholly or partly."""
    result = trees.revert(paths.from_native(tree), *known_pins(pytorch))
    say_all(report.result_lines(result, "unpatched"))
