"""simulator: a SwitchML client library without a switch."""

from __future__ import annotations

import os
from dataclasses import dataclass

import click

from patchgen.cli import params, path_types
from patchgen.cli.console import Command, Group, progress, say
from patchgen.cli.serving import counters_option, listen_option, run
from patchgen.core.library.config import MAX_WORKERS
from patchgen.system import ports


@click.group(cls=Group)
def simulator() -> None:
    """A SwitchML client library whose switch is a process."""


@dataclass(frozen=True)
class _Install:
    """Request of `simulator install`; None leaves the choice to the simulator."""

    output: str
    workers: int | None
    controller_port: int | None
    aggregator: str | None
    prepostprocessor: str | None
    debug: bool | None
    cxxflags: str | None


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
    "--workers",
    type=click.IntRange(1, MAX_WORKERS),
    metavar="N",
    help="Set num_workers, and write a switchml.cfg for each of N ranks. [default: one for all]",
)
@click.option(
    "--controller-port",
    type=click.IntRange(1, ports.HIGHEST),
    metavar="PORT",
    help="Port on which rank 0 listens. [default: 50099]",
)
@click.option(
    "--aggregator",
    metavar="HOST:PORT",
    help="Address of `simulator serve`, which then is the switch instead of rank 0.",
)
@click.option(
    "--prepostprocessor",
    type=click.Choice(["bypass", "cpu_exponent_quantizer"]),
    help="Sum float32 exactly (bypass) or in fixed point. [default: cpu_exponent_quantizer]",
)
@click.option(
    "--debug", is_flag=True, default=None, help="Compile without optimization and with symbols."
)
@click.option("--cxxflags", metavar="FLAGS", help="More flags for the compiler.")
@params.into(_Install)
def install(request: _Install) -> None:
    """Builds the simulator and installs it, to be used as SWITCHML_HOME."""
    import shlex
    from pathlib import Path

    from patchgen.extras.lab import simulator as simulators  # no other command needs it

    given = {name: value for name, value in vars(request).items() if value is not None}
    if request.aggregator is not None and request.controller_port is not None:
        raise click.UsageError("--aggregator has a port; leave out --controller-port")
    prefix = Path(given.pop("output"))
    with progress():
        simulators.install(prefix, **given, environ=os.environ)
    say(f"use it with: SWITCHML_HOME={shlex.quote(str(prefix.absolute()))}")


@dataclass(frozen=True)
class _Serve:
    """Request of `simulator serve`."""

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

    It is the switch instead of rank 0, for ranks whose switchml.cfg says so; `simulator install
    --aggregator` writes such files. What was counted is told at the end, and the exit code is 0.
    """
    from patchgen.extras.lab.simulator import aggregator

    with progress():
        program = aggregator.build(params.cache(request.cache), os.environ)
    command = [program, f"--listen={request.listen}", f"--workers={request.workers}"]
    run(command, request.target, aggregator.lines, "the aggregator")
