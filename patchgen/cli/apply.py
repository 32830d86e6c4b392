"""apply: patch a tree."""

from __future__ import annotations

import click

from patchgen.cli.console import Command, say_all
from patchgen.cli.params import Variables, known_pins, library_options, pytorch_option
from patchgen.core.patch import patchfile, report
from patchgen.core.patch import tree as trees
from patchgen.errors import OptionsError, file_errors
from patchgen.system import paths


@click.command(cls=Command)
@click.argument("tree", type=click.Path())
@library_options
@pytorch_option
@click.option(
    "--patch",
    "patch_file",
    type=click.Path(),
    metavar="FILE",
    help="Apply a patch written by generate, with its options; - for stdin.",
)
@click.option("--dry-run", is_flag=True, help="Print what would change, and change nothing.")
def apply(
    tree: str, variables: Variables, pytorch: str | None, patch_file: str | None, *, dry_run: bool
) -> None:
    """Patch a PyTorch tree, or change the options of a patched tree."""
    known, wanted = known_pins(pytorch)
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
    result = trees.apply(paths.from_native(tree), options, known, wanted, dry=dry_run)
    variables.warn(options)
    done = "would be patched" if dry_run and result.changed else "patched"
    say_all(report.result_lines(result, done, options))
