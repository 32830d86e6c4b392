"""plugin: the backend "switchml" for a torch that is installed."""

from __future__ import annotations

from typing import Any

import click

from patchgen.cli import params, path_types
from patchgen.cli.console import Command, Group, progress, say
from patchgen.cli.params import read_options, variable_options, warn


@click.group(cls=Group)
def plugin() -> None:
    """The backend "switchml" for an installed torch, without a patch."""


@plugin.command(cls=Command)
@variable_options
@params.torch_option
@click.option(
    "-o",
    "--output",
    type=path_types.OUTPUT_DIRECTORY,
    metavar="DIR",
    help="Directory for the wheel. [default: BUILDDIR]",
)
def build(
    torch_python: str,
    output: str | None,
    *,
    strict: bool,
    **given: Any,  # the other options
) -> None:
    """Compiles the plugin and writes its wheel, for one torch and one interpreter."""
    import os

    from patchgen import plugin as building
    from patchgen.system import interpreter  # no other command needs it

    options = read_options(given)
    warn(options, strict=strict)
    directory = options.builddir if output is None else os.path.abspath(output)
    torch = params.torch_of(interpreter.located(torch_python))
    with progress():
        wheel = building.build(options, torch, directory)
    say(f"wrote {wheel}")
    say(f"install it with: {torch.python} -m pip install {wheel}")
