"""Options of a software switch, and for ranks around it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from patchgen.cli import params
from patchgen.cli.console import option
from patchgen.cli.params import Command, gather
from patchgen.errors import OptionsError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchgen.extras.lab.lab import Faults

CONFIG = "SWITCHML_CONFIG"
"""Variable that names a switchml.cfg."""

SWITCH = "Switch"
"""Heading of the options about the switch."""

FAULTS: dict[str, tuple[click.ParamType[Any], str, str]] = {
    "loss": (params.FiniteRange(0, 1), "P", "Share of packets that the switch loses, each way."),
    "duplicate": (params.FiniteRange(0, 1), "P", "Share that it delivers twice."),
    "reorder": (params.FiniteRange(0, 1), "P", "Share that it delivers after later ones."),
    "delay": (params.FiniteRange(0, 60_000), "MS", "Milliseconds that it holds each packet."),
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


@dataclass(frozen=True)
class LabRequest:
    """Lab that a user asks for."""

    wanted: bool | None
    """True: there is to be one. None: where a library with DPDK was named, and no configuration."""
    faults: Faults | None
    """Faults injected by its switch; None where the user names none."""

    def find_configs(self, named: Sequence[str]) -> list[str]:
        """Finds the configurations of the ranks: the named ones, else that of the environment.

        Raises:
            OptionsError: one cannot be read, or the lab makes them.
        """
        from patchgen.core.library import config

        if self.wanted and named:
            raise OptionsError("--lab: it makes the configurations; drop --config")
        found = [] if self.wanted else [*named] or [*filter(None, [os.environ.get(CONFIG)])]
        for path in found:
            config.load(os.path.abspath(path))
        return [os.path.abspath(path) for path in found]


def lab_options(command: Command) -> Command:
    """Adds the options to a command, which gets them as the value `lab`."""
    command = gather("lab", _read_request, ["connected", "faults"])(command)
    add = option(
        "--lab/--no-lab", "connected", group=SWITCH, default=None,
        help="Connect the real client library to a switch in software. [default: with a library "
        "that has DPDK and no --config]",
    )  # fmt: skip
    return add(fault_options(command))


def _read_request(given: Mapping[str, Any]) -> LabRequest:
    from patchgen.extras.lab.lab import Faults

    lab, faults = given["connected"], given["faults"]
    named = {name: faults[name] for name in FAULTS if faults[name] is not None}
    if named and lab is False:
        raise OptionsError(f"--{next(iter(named))} is of the lab; drop --no-lab")
    return LabRequest(True if named else lab, Faults(**named) if named else None)
