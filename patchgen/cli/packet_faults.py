"""The options for what a software switch does to packets."""

from __future__ import annotations

from typing import Any

import click

from patchgen.cli.console import option
from patchgen.cli.number_types import FiniteRange
from patchgen.cli.params import Command, gather

SWITCH = "Switch"
"""Heading of the options about the switch."""

FAULTS: dict[str, tuple[click.ParamType[Any], str, str]] = {
    "loss": (FiniteRange(0, 1), "P", "Share of packets that the switch loses, each way."),
    "duplicate": (FiniteRange(0, 1), "P", "Share that it delivers twice."),
    "reorder": (FiniteRange(0, 1), "P", "Share that it delivers after later ones."),
    "delay": (FiniteRange(0, 60_000), "MS", "Milliseconds that it holds each packet."),
    "seed": (
        click.IntRange(0, 10**15),
        "N",
        "Seed of these choices. [default: another in each run]",
    ),
}  # fmt: skip
"""The type, the name of the value and the meaning of each."""


def fault_options(command: Command) -> Command:
    """Adds the options, handed on as `faults`; None where the user says nothing."""
    command = gather("faults", dict, [*FAULTS])(command)
    for name, (kind, metavar, text) in reversed(FAULTS.items()):
        command = option(f"--{name}", group=SWITCH, type=kind, metavar=metavar, help=text)(command)
    return command
