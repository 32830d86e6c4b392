"""simulator: a SwitchML client library without a switch."""

from __future__ import annotations

import os
from dataclasses import dataclass

import click

from patchgen.cli import params, path_types
from patchgen.cli.console import Command, Group, progress, say
from patchgen.cli.serving import counters_option, listen_option, run
from patchgen.core.library.config import MAX_WORKERS


@click.group(cls=Group)
def simulator() -> None:
    """A SwitchML client library without a switch: a process sums in its place."""


@dataclass(frozen=True)
class _Install:
    output: str
    aggregator: str | None
    debug: bool


@simulator.command(cls=Command)
@click.option(
    "-o",
    "--output",
    type=path_types.OUTPUT_DIRECTORY,
    required=True,
    metavar="DIR",
    help="Directory to install into.",
)
@click.option(
    "--aggregator",
    metavar="HOST:PORT",
    help="Address of `simulator serve`, which then is the switch instead of rank 0.",
)
@click.option("--debug", is_flag=True, help="Compile without optimization and with symbols.")
@params.into(_Install)
def install(request: _Install) -> None:
    """Builds the simulator and installs it, to be used as SWITCHML_HOME."""
    import shlex
    from pathlib import Path

    from patchgen.extras.lab import simulator as simulators  # no other command needs it

    prefix = Path(request.output)
    with progress():
        simulators.install(
            prefix, aggregator=request.aggregator, debug=request.debug, environ=os.environ
        )
    say(f"use it with: SWITCHML_HOME={shlex.quote(str(prefix.absolute()))}")


@dataclass(frozen=True)
class _Serve:
    listen: str
    workers: int
    target: str | None
    cache: str | None


@simulator.command(cls=Command)
@listen_option("HOST:PORT")
@click.option(
    "--workers",
    type=click.IntRange(1, MAX_WORKERS),
    metavar="N",
    required=True,
    help="Ranks that sum together.",
)
@counters_option
@params.cache_option
@params.into(_Serve)
def serve(request: _Serve) -> None:
    """Sums for ranks with the simulator, until Ctrl-C or SIGTERM.

    Without this command rank 0 sums. Ranks use it where their switchml.cfg has its address, as
    `simulator install --aggregator` writes it. What was counted is told at the end, and the exit
    code is 0.
    """
    from patchgen.extras.lab.simulator import aggregator
    from patchgen.system import native

    with progress():
        cache = params.cache(request.cache)
        program = native.get_or_build(aggregator.PROJECT, cache, os.environ).path
    command = [program, f"--listen={request.listen}", f"--workers={request.workers}"]
    run(command, request.target, aggregator.lines, "the aggregator")
