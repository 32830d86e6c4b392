"""apply: a tree, patched."""

from __future__ import annotations

from dataclasses import dataclass

import click

from patchgen.cli.console import Command, say_all
from patchgen.cli.params import Variables, into, known_pins, library_options, pytorch_option
from patchgen.core.patch import patchfile, report
from patchgen.core.patch import tree as trees
from patchgen.errors import OptionsError, file_errors
from patchgen.system import paths


@dataclass(frozen=True)
class _Request:
    """Request of `apply`."""

    tree: str
    variables: Variables
    pytorch: str | None
    patch_file: str | None


@click.command(cls=Command)
@click.argument("tree", type=click.Path())
@library_options
@pytorch_option
@click.option(
    "--patch",
    "patch_file",
    type=click.Path(),
    metavar="FILE",
    help="Apply a patch that generate wrote, instead of giving options.",
)
@into(_Request)
def apply(request: _Request) -> None:
    """Patches a PyTorch tree, or brings a patched one to other options."""
    known, wanted = known_pins(request.pytorch)
    patch_file, variables = request.patch_file, request.variables
    if patch_file is None:
        options = variables.read()
    else:
        if variables.spelled:
            flags = " ".join(variables.spelled)
            raise click.UsageError(f"--patch brings its own options; drop {flags}")
        with file_errors(), open(patch_file, "rb") as file:
            content = file.read()
        options, made_for = patchfile.read(content, known, patch_file)
        if wanted is not None and wanted != made_for:
            raise OptionsError(f"{patch_file}: made for {made_for.name}, not for {wanted.name}")
        wanted = made_for
    variables.warn(options)
    result = trees.apply(paths.from_native(request.tree), options, known, wanted)
    say_all(report.result_lines(result, "patched"))
