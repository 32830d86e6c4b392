"""Options of the software switch, and of commands that connect ranks to it."""

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
"""Environment variable that names a switchml.cfg."""

SWITCH = "Switch"

FAULTS: dict[str, tuple[click.ParamType[Any], str, str]] = {
    "loss": (params.FiniteRange(0, 1), "P", "Share of packets to lose, in each direction."),
    "duplicate": (params.FiniteRange(0, 1), "P", "Share of packets to deliver twice."),
    "reorder": (params.FiniteRange(0, 1), "P", "Share of packets to deliver after later ones."),
    "delay": (params.FiniteRange(0, 60_000), "MS", "Milliseconds to hold each packet."),
    "seed": (click.IntRange(0, 10**15), "N", "Seed of these faults. [default: a random one]"),
}  # fmt: skip
"""Type, metavar and help of each option."""


def fault_options(command: Command) -> Command:
    """Add the options of faults; the command gets them as `faults`, with None where not given."""
    command = gather("faults", dict, [*FAULTS])(command)
    for name, (kind, metavar, text) in reversed(FAULTS.items()):
        command = option(f"--{name}", group=SWITCH, type=kind, metavar=metavar, help=text)(command)
    return command


@dataclass(frozen=True)
class LabRequest:
    """Lab that the user asked for."""

    wanted: bool | None
    """True for --lab or a fault, False for --no-lab. None decides by the library and --config."""
    faults: Faults | None
    """Faults that the switch injects; None where the user named none."""

    def find_configs(self, named: Sequence[str]) -> list[str]:
        """Return absolute paths of the ranks' configurations: those named, else of the environment.

        Raises:
            OptionsError: a configuration cannot be read, or is named although the lab writes its
                own.
        """
        from patchgen.core.library import config

        if self.wanted and named:
            raise OptionsError("--lab: it makes the configurations; drop --config")
        found = [] if self.wanted else [*named] or [*filter(None, [os.environ.get(CONFIG)])]
        for path in found:
            config.load(os.path.abspath(path))
        return [os.path.abspath(path) for path in found]


def lab_options(command: Command) -> Command:
    """Add --lab and the faults; the command gets them as `lab`."""
    command = gather("lab", _read_request, ["connected", "faults"])(command)
    add = option(
        "--lab/--no-lab", "connected", group=SWITCH, default=None,
        help="Connect the real client library to a switch in software. [default: if the library "
        "has DPDK and --config is not given]",
    )  # fmt: skip
    return add(fault_options(command))


def _read_request(given: Mapping[str, Any]) -> LabRequest:
    from patchgen.extras.lab.lab import Faults

    lab, faults = given["connected"], given["faults"]
    named = {name: faults[name] for name in FAULTS if faults[name] is not None}
    if named and lab is False:
        raise OptionsError(f"--{next(iter(named))} is of the lab; drop --no-lab")
    return LabRequest(True if named else lab, Faults(**named) if named else None)
