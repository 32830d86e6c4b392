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
    tree: str
    variables: Variables
    pytorch: str | None
    patch_file: str | None
    dry_run: bool


@click.command(cls=Command)
@click.argument("tree", type=click.Path())
@library_options
@pytorch_option
@click.option(
    "--patch",
    "patch_file",
    type=click.Path(),
    metavar="FILE",
    help="Apply a patch that generate wrote, instead of giving options; - for stdin.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be changed, and change nothing.")
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
        with file_errors(), click.open_file(patch_file, "rb") as file:
            content = file.read()
        name = "stdin" if patch_file == "-" else patch_file
        options, made_for = patchfile.read(content, known, name)
        if wanted is not None and wanted != made_for:
            raise OptionsError(f"{name}: made for {made_for.name}, not for {wanted.name}")
        wanted = made_for
    result = trees.apply(
        paths.from_native(request.tree), options, known, wanted, dry=request.dry_run
    )
    variables.warn(options)
    done = "would be patched" if request.dry_run and result.changed else "patched"
    say_all(report.result_lines(result, done, options))
