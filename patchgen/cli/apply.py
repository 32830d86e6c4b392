"""apply: a tree, patched."""

from __future__ import annotations

from typing import Any

import click

from patchgen.cli.console import Command, say_all
from patchgen.cli.params import known_pins, pytorch_option, read_options, variable_options, warn
from patchgen.errors import OptionsError, file_errors
from patchgen.patch import patchfile, report
from patchgen.patch import tree as trees
from patchgen.system import paths


@click.command(cls=Command)
@click.argument("tree", type=click.Path())
@variable_options
@pytorch_option
@click.option(
    "--patch",
    "patch_file",
    type=click.Path(),
    metavar="FILE",
    help="Apply a patch that generate wrote, instead of giving options.",
)
def apply(
    tree: str,
    pytorch: str | None,
    patch_file: str | None,
    *,
    strict: bool,
    **given: Any,  # the other options
) -> None:
    """Patches a PyTorch tree, or brings a patched one to other options."""
    known, wanted = known_pins(pytorch)
    if patch_file is None:
        options = read_options(given)
    else:
        flags = [
            f"--{name.replace('_', '-')}" for name, value in given.items() if value is not None
        ]
        if flags:
            raise click.UsageError(f"--patch brings its own options; drop {' '.join(flags)}")
        with file_errors(), open(patch_file, "rb") as file:
            content = file.read()
        options, made_for = patchfile.read(content, known, patch_file)
        if wanted is not None and wanted != made_for:
            raise OptionsError(f"{patch_file}: made for {made_for.name}, not for {wanted.name}")
        wanted = made_for
    warn(options, strict=strict)
    result = trees.apply(paths.from_native(tree), options, known, wanted)
    say_all(report.result_lines(result, "patched"))
