"""switch: a software switch for the real client library."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from patchgen.cli import params
from patchgen.cli.console import Command, progress
from patchgen.cli.lab_options import fault_options
from patchgen.cli.serving import counters_option, listen_option, run

if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST_BYTES = 107  # of a socket's path


def _port(text: str) -> str:
    kind, _, name = text.partition(":")
    if kind not in {"memif", "packet"} or not name:
        raise click.BadParameter(f"{text}: not memif:PATH or packet:INTERFACE")
    if kind == "memif" and len(os.fsencode(name)) > _MOST_BYTES:
        raise click.BadParameter(f"{name}: the path of a socket has at most {_MOST_BYTES} bytes")
    return text


@click.command(cls=Command)
@listen_option("HOST:PORT of the controller")
@click.option(
    "--port",
    "ports",
    metavar="KIND:NAME",
    multiple=True,
    required=True,
    callback=lambda _context, _option, given: tuple(_port(port) for port in given),
    help="Port of a worker: memif:PATH, a socket for DPDK's net_memif, or packet:INTERFACE. "
    "Repeat it for each worker.",
)
@click.option(
    "--wait",
    type=params.FiniteRange(0, 86_400, min_open=True),
    metavar="S",
    help="Seconds that workers wait for each other when they start. [default: 120]",
)
@fault_options
@counters_option
@params.cache_option
def switch(
    *,
    ports: tuple[str, ...],
    listen: str,
    wait: float | None,
    faults: Mapping[str, float | None],
    target: str | None,
    cache: str | None,
) -> None:
    """Sum the packets of SwitchML's client library, until Ctrl-C or SIGTERM.

    Does what a Tofino does with SwitchML's program, for workers on this machine. Prints its
    counters when it stops, and exits with 0.
    """
    from patchgen.extras.lab.switch import PROJECT, counters
    from patchgen.system import native

    with progress():
        program = native.get_or_build(PROJECT, params.cache(cache), os.environ).path
    options = {"wait": wait, **faults}
    command = [program, f"--listen={listen}", *(f"--port={port}" for port in ports)]
    command += [f"--{name}={value!r}" for name, value in options.items() if value is not None]
    run(command, target, counters.lines, "the switch")
