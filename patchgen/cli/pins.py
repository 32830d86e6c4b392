"""pins: which PyTorch commits there are patches for, and how a maintainer adds one."""

from __future__ import annotations

import click

from patchgen.cli import path_types
from patchgen.cli.console import Command, Group, print_json, say
from patchgen.cli.params import json_option, known_pins, pytorch_option
from patchgen.core.patch import pins as known
from patchgen.core.patch import report
from patchgen.errors import TreeError, file_errors
from patchgen.system import files, paths


@click.group(cls=Group, invoke_without_command=True)
@json_option
@click.pass_context
def pins(ctx: click.Context, *, as_json: bool) -> None:
    """Lists the PyTorch commits that can be patched."""
    if ctx.invoked_subcommand is not None:
        return
    shipped = known.shipped()
    if as_json:
        print_json([report.pin_data(pin) for pin in shipped])
    else:
        for pin in shipped:
            click.echo(report.pin_line(pin))


@pins.command(cls=Command)
@click.argument("tree", type=click.Path())
@click.option(
    "--layout",
    required=True,
    metavar="NAME",
    help="Layout of a known pin, or a pin file (*.json) to take it from.",
)
@click.option("--name", required=True, metavar="NAME", help="Name of the pin, such as v1.7.1.")
@click.option("--commit", required=True, metavar="ID", help="Commit, all 40 digits.")
@click.option(
    "-o",
    "--output",
    type=path_types.OUTPUT_FILE,
    metavar="FILE",
    help="File to write. [default: stdout]",
)
def make(tree: str, layout: str, name: str, commit: str, output: str | None) -> None:
    """Makes a pin from an unpatched checkout."""
    from patchgen.core.patch import pinning

    pin = pinning.make(
        paths.from_native(tree), known.of_layout(layout, known.shipped()), name, commit
    )
    text = known.to_json(pin)
    if output is None:
        click.echo(text, nl=False)
        return
    with file_errors():
        files.replace(paths.encode(paths.from_native(output)), text.encode("ascii"))
    say(f"{output}: {pin.name}, {len(pin.files)} files")


@pins.command(cls=Command)
@click.argument("tree", type=click.Path())
@pytorch_option
def check(tree: str, pytorch: str | None) -> None:
    """Compares a pin with an unpatched checkout of its commit."""
    from patchgen.core.patch import pinning
    from patchgen.core.patch.state import inspect

    source = paths.from_native(tree)
    shipped, pin = known_pins(pytorch)
    pin = pin or inspect(source, shipped).pin
    if pin is None:
        raise TreeError(f"{tree}: not a commit that there is a pin for; name one with --pytorch")
    like = pin if pin.anchors else known.of_layout(pin.layout, shipped)
    problems = pinning.check(pin, source, like)
    if problems:
        raise TreeError("\n".join(problems))
    say(f"{tree}: agrees with {pin.name} in {len(pin.files)} files")
