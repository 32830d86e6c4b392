"""generate, apply, revert, status.

What generate does not need is imported by the commands that need it: it must be quick.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from typing import Any

import click

from patchgen import files, patch, paths, pins, pythons, summary
from patchgen.cli.common import (
    json_option,
    known_pins,
    print_json,
    pytorch_option,
    read_options,
    say_all,
    variable_options,
    warn,
)
from patchgen.errors import OptionsError, TreeError, file_errors

_NAME = "switchml_pytorch.patch"

_tree = click.argument("tree", type=click.Path())


@click.command()
@variable_options
@pytorch_option
@click.option(
    "-o",
    "--output",
    type=click.Path(allow_dash=True),
    metavar="FILE",
    help=f"Instead of BUILDDIR/{_NAME}; - is stdout.",
)
@json_option
def generate(
    pytorch: str | None,
    output: str | None,
    *,
    strict: bool,
    as_json: bool,
    **given: Any,  # noqa: ANN401  # one for each variable
) -> None:
    """Writes the patch. Needs no network and no PyTorch."""
    if as_json and output == "-":
        raise click.UsageError("--json and -o - both write to stdout; drop one")
    options = read_options(given)
    pin = pins.find(pytorch or pins.DEFAULT, pins.shipped())
    warnings = warn(options, strict=strict)
    content = patch.build(options, pin)
    digest = hashlib.sha256(content).hexdigest()
    with file_errors():
        name = _write(content, output, options.builddir)
    if as_json:
        print_json(summary.generate_data(name, digest, pin, options, warnings))
    else:
        say_all(summary.generate_lines(name, len(content), digest, pin, options))


def _write(content: bytes, output: str | None, builddir: str) -> str:
    """Writes the patch where it belongs and returns where that is."""
    if output == "-":
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return output
    if output is None:
        os.makedirs(paths.encode(builddir), exist_ok=True)
        name = os.path.join(builddir, _NAME)
    else:
        name = paths.from_native(output)
    files.replace(paths.encode(name), content)
    return name


@click.command()
@_tree
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
    **given: Any,  # noqa: ANN401  # one for each variable
) -> None:
    """Patches a PyTorch tree, or brings a patched one to other options."""
    from patchgen import report  # noqa: PLC0415
    from patchgen import tree as trees  # noqa: PLC0415

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
        options, made_for = patch.read(content, known, patch_file)
        if wanted is not None and wanted != made_for:
            raise OptionsError(f"{patch_file}: made for {made_for.name}, not for {wanted.name}")
        wanted = made_for
    warn(options, strict=strict)
    result = trees.apply(paths.from_native(tree), options, known, wanted)
    say_all(report.result_lines(result, "patched"))


@click.command()
@_tree
@pytorch_option
def revert(tree: str, pytorch: str | None) -> None:
    """Takes a patched, or partly patched, tree back to what it was."""
    from patchgen import report  # noqa: PLC0415
    from patchgen import tree as trees  # noqa: PLC0415

    result = trees.revert(paths.from_native(tree), *known_pins(pytorch))
    say_all(report.result_lines(result, "unpatched"))


@click.command()
@click.argument("target", metavar="TREE|PYTHON|WHEEL", type=click.Path())
@pytorch_option
@json_option
@click.pass_context
def status(ctx: click.Context, target: str, pytorch: str | None, *, as_json: bool) -> None:
    """Tells whether a tree, or the torch of an interpreter or in a wheel, is patched, and how.

    A tree is clean, patched, partly patched, or something else. Of an interpreter also: whether a
    graft is installed, whether it fits, and whether the plugin is there.

    Exits with 0 where all that is there fits, and with 3 where something does not.
    """
    from patchgen import report, state  # noqa: PLC0415

    if not os.path.isdir(target) and (target.endswith(".whl") or shutil.which(target)):
        if pytorch is not None:
            raise click.UsageError("--pytorch is for a tree; drop it")
        _status_of_torch(ctx, target, as_json=as_json)
        return
    known, wanted = known_pins(pytorch)
    found = state.inspect(paths.from_native(target), (wanted,) if wanted else known)
    if as_json:
        print_json(report.state_data(found))
    else:
        for line in report.state_lines(found):
            click.echo(line)
    if found.overall not in (state.Overall.CLEAN, state.Overall.PATCHED):
        ctx.exit(TreeError.exit_code)


def _status_of_torch(ctx: click.Context, target: str, *, as_json: bool) -> None:
    from patchgen import installation  # noqa: PLC0415

    if target.endswith(".whl"):
        found = installation.unpack(target)
    else:
        found = installation.look(pythons.located(target))
    if as_json:
        print_json(installation.data(found))
    else:
        for line in installation.lines(found):
            click.echo(line)
    if not found.sound:
        ctx.exit(TreeError.exit_code)
