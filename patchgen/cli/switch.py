"""switch: a software switch for the real client library."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import click

from patchgen.cli import params
from patchgen.cli.console import Command, progress, say_all
from patchgen.cli.faults import FAULTS, fault_options
from patchgen.errors import ToolError, file_errors

_GRACE = 10.0  # seconds


@click.command(cls=Command)
@click.option(
    "--listen",
    metavar="ADDR",
    default="127.0.0.1:50099",
    show_default=True,
    help="HOST:PORT of the controller; port 0 takes a free one.",
)
@click.option(
    "--port",
    "ports",
    metavar="KIND:NAME",
    multiple=True,
    required=True,
    help="Port of a worker: memif:PATH, a socket for DPDK's net_memif, or packet:INTERFACE.",
)
@click.option(
    "--wait",
    type=click.FloatRange(min=0, min_open=True),
    metavar="S",
    help="Seconds that workers wait for each other when they join. [default: 120]",
)
@fault_options
@click.option("--json", "target", type=click.Path(), metavar="FILE", help="Write the counters.")
@params.cache_option
def switch(ports: tuple[str, ...], listen: str, target: str | None, **given: Any) -> None:
    """Sums the packets of SwitchML's client library, until Ctrl-C or SIGTERM.

    It does what a Tofino does with SwitchML's program, for workers on this machine. What it has
    counted is told at the end.
    """
    from patchgen import switch as builder  # no other command needs it
    from patchgen.system import files
    from patchgen.system.process import Program, stream

    with progress():
        program = builder.build(params.cache(given["cache"]), os.environ)
    options = {name: given[name] for name in ("wait", *FAULTS) if given[name] is not None}
    with files.scratch("counters") as directory:
        counters = os.path.abspath(target) if target else os.path.join(directory, "counters.json")
        with file_errors():
            os.stat(os.path.dirname(counters))  # rather now than after hours
        command = [program, f"--listen={listen}", f"--json={counters}"]
        command += [f"--port={port}" for port in ports]
        command += [f"--{name}={value!r}" for name, value in options.items()]
        before = _written(counters)
        try:
            code = stream(Program(command, supervised=True, grace=_GRACE), _show, limit=None)
        finally:  # it is a signal that ends it
            if _written(counters) != before:
                _tell(counters)
        if code:
            raise ToolError("the switch has ended; why stands above")


def _show(source: str, line: bytes) -> None:
    out = (sys.stderr if source == "err" else sys.stdout).buffer
    out.write(line)
    out.flush()


def _written(path: str) -> int | None:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return None


def _tell(counters: str) -> None:
    from patchgen.switch import report

    with file_errors(), open(counters, encoding="utf-8") as file:
        say_all(["", *report.lines(json.load(file))])
