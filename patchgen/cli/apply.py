"""apply: patch a tree."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING

import click

from patchgen.cli import path_types
from patchgen.cli.console import NAME, Command, say_all
from patchgen.cli.params import Variables, known_pins, library_options, pytorch_option
from patchgen.core.patch import patches, report
from patchgen.core.patch import tree as trees
from patchgen.errors import OptionsError, file_errors
from patchgen.system import paths, untrusted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchgen.core.patch.patches import Patch
    from patchgen.core.patch.pins import Pin


@click.command(cls=Command, context_settings={"allow_extra_args": True})
@click.argument("tree", type=path_types.Named())
@library_options
@pytorch_option
@click.option(
    "--patch",
    "patch_file",
    type=path_types.Named(),
    metavar="FILE",
    help="Apply a patch written by generate, with its options; - for stdin.",
)
@click.option("--dry-run", is_flag=True, help="Print what would change, and change nothing.")
@click.pass_context
def apply(
    context: click.Context, tree: str, variables: Variables, pytorch: str | None,
    patch_file: str | None, *, dry_run: bool,
) -> None:  # fmt: skip
    """Patch a PyTorch tree, or change the options of a patched tree."""
    _refuse_files([tree, *context.args])
    known, wanted = known_pins(pytorch)
    root = paths.from_native(tree)
    if patch_file is None:
        options = variables.read()
        result = trees.apply(root, options, known, wanted, dry=dry_run)
    else:
        patch = _read_patch(variables, patch_file, known, wanted)
        options = patch.options
        result = trees.apply_patch(root, patch, known, dry=dry_run)
    variables.warn(options)
    done = "would be patched" if dry_run and result.changed else "patched"
    say_all(report.result_lines(result, done, options))


def _read_patch(
    variables: Variables, patch_file: str, known: Sequence[Pin], wanted: Pin | None
) -> Patch:
    """Read the patch in a file, which has its own options and pin.

    Raises:
        OptionsError: it was not written by this version, or for another pin than the user named.
        FileError: it cannot be read.
        click.UsageError: options were given as well.
    """
    if variables.spelled:
        flags = " ".join(variables.spelled)
        raise click.UsageError(f"--patch brings its own options; drop {flags}")
    name = "stdin" if patch_file == "-" else paths.describe(patch_file)
    if patch_file == "-":
        with file_errors():
            content = untrusted.read_stream(sys.stdin.buffer, name)
    else:
        content = untrusted.read_file(patch_file)
    patch = patches.read(content, known, name)
    if wanted is not None and wanted != patch.pin:
        raise OptionsError(f"{name}: made for {patch.pin.name}, not for {wanted.name}")
    return patch


def _refuse_files(arguments: Sequence[str]) -> None:
    """Refuse arguments other than one tree, such as a patch, which has an option.

    Raises:
        OptionsError: an argument is a file.
        click.UsageError: there are several arguments.
    """
    file = next(filter(os.path.isfile, arguments), None)
    if file is not None:
        tree = next((one for one in arguments if one != file), "TREE")
        command = shlex.join(["apply", "--patch", *map(paths.describe, (file, tree))])
        raise OptionsError(
            f"{paths.describe(file)}: is not a tree; apply a patch with: {NAME} {command}"
        )
    if len(arguments) > 1:
        raise click.UsageError(f"Got unexpected extra argument ({' '.join(arguments[1:])})")
