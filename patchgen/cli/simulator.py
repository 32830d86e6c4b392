"""simulator: a SwitchML client library that needs no switch."""

from __future__ import annotations

import os

import click

from patchgen.cli import params, path_types
from patchgen.cli.console import Command, Group, progress, say
from patchgen.cli.serving import counters_option, listen_option, run
from patchgen.core.library.config import MAX_WORKERS


@click.group(cls=Group)
def simulator() -> None:
    """Install or serve a client library that needs no switch: a process sums instead."""


@simulator.command(cls=Command)
@path_types.output_option("DIR", "Directory to install into.", required=True)
@click.option(
    "--aggregator",
    metavar="HOST:PORT",
    help="Address of `simulator serve`, which then sums instead of rank 0.",
)
@click.option("--debug", is_flag=True, help="Compile without optimization and with symbols.")
def install(output: str, aggregator: str | None, *, debug: bool) -> None:
    """Build the simulator, and install it for use as SWITCHML_HOME."""
    import shlex
    from pathlib import Path

    from patchgen.extras.lab import simulator as simulators

    prefix = Path(output)
    with progress():
        simulators.install(prefix, aggregator=aggregator, debug=debug, environ=os.environ)
    say(f"use it with: SWITCHML_HOME={shlex.quote(str(prefix.absolute()))}")


@simulator.command(cls=Command)
@listen_option("HOST:PORT")
@click.option(
    "--workers",
    type=click.IntRange(1, MAX_WORKERS),
    metavar="N",
    required=True,
    help="Number of ranks that sum together.",
)
@counters_option
@params.cache_option
def serve(listen: str, workers: int, target: str | None, cache: str | None) -> None:
    """Sum for ranks that use the simulator, until Ctrl-C or SIGTERM.

    Without this command rank 0 sums. Ranks use it if their switchml.cfg has its address, which
    `simulator install --aggregator` writes. Prints its counters when it stops, and exits with 0.
    """
    from patchgen.extras.lab.simulator import aggregator
    from patchgen.system import native

    with progress():
        directory = params.cache(cache)
        program = native.get_or_build(aggregator.PROJECT, directory, os.environ).path
    command = [program, f"--listen={listen}", f"--workers={workers}"]
    run(command, target, aggregator.lines, "the aggregator")
