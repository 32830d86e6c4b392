"""simulator and graft: a running torch with SwitchML, without a switch and without a build."""

from __future__ import annotations

from typing import Any

import click

from patchgen.cli.common import read_options, say, variable_options, warn
from patchgen.cli.progress import progress


@click.group()
def simulator() -> None:
    """A SwitchML client library whose switch is a process."""


@simulator.command()
@click.argument("prefix", type=click.Path())
@click.option("--workers", type=click.IntRange(min=1), metavar="N", help="Write a config per rank.")
@click.option("--controller-port", type=click.IntRange(1, 65535), metavar="PORT")
@click.option("--prepostprocessor", type=click.Choice(["bypass", "cpu_exponent_quantizer"]))
@click.option("--debug", is_flag=True, default=None, help="No optimization, debug symbols.")
@click.option("--cxxflags", metavar="FLAGS", help="More flags for the compiler.")
def install(prefix: str, **given: Any) -> None:  # noqa: ANN401  # the options above
    """Builds the simulator and installs it, to be used as SWITCHML_HOME."""
    from pathlib import Path  # noqa: PLC0415

    from patchgen import simulator as builder  # noqa: PLC0415  # no other command needs it

    values = {name: value for name, value in given.items() if value is not None}
    with progress() as report:
        builder.install(Path(prefix), report=report, **values)
    say(f"use it with: SWITCHML_HOME={Path(prefix).absolute()}")


@click.command()
@variable_options
@click.option(
    "--torch",
    "torch_python",
    required=True,
    type=click.Path(),
    metavar="PYTHON",
    help="An interpreter that imports the torch.",
)
@click.option(
    "--source",
    required=True,
    type=click.Path(),
    metavar="TREE",
    help="The source of that torch, patched or not.",
)
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(),
    metavar="LIB.so",
    help="The shared object to write.",
)
def graft(
    torch_python: str,
    source: str,
    output: str,
    *,
    strict: bool,
    **given: Any,  # noqa: ANN401  # one for each variable
) -> None:
    """Compiles the patched files against an installed torch, to be loaded before it."""
    from pathlib import Path  # noqa: PLC0415

    from patchgen import graft as grafting  # noqa: PLC0415  # no other command needs it

    options = read_options(given)
    warn(options, strict=strict)
    library = Path(output).absolute()
    with progress() as report:
        grafting.build(options, Path(torch_python), Path(source), library, report)
    say(f'load it before torch: ctypes.CDLL("{library}", ctypes.RTLD_GLOBAL)')
