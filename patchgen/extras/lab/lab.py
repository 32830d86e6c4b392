"""Lab: ranks with the real client library around a software switch."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from patchgen.core.library import config
from patchgen.errors import OptionsError, ToolError
from patchgen.extras.lab import switch as switches
from patchgen.system import files
from patchgen.system.companion import Companion, beside
from patchgen.system.ports import split_address
from patchgen.system.process import Program

MOST = switches.WORKERS
"""Ranks that a lab has room for."""

NO_DPDK = (
    "--lab: {library} has no DPDK; make one by: switchml-patch client build --dpdk -o DIR; "
    "then give --switchml-home DIR --dpdk"
)
"""Message for a client library that cannot be connected to a switch."""

_READY, _GRACE = 30.0, 10.0  # seconds
# Milliseconds: a busy machine is late as well, and what is only late need not be sent again.
_LOSSY, _PATIENT = 10, 200
_SHOWN = 3  # last lines of a switch that has ended
# DPDK's options end at spaces, commas and brackets; a configuration's line ends at a #.
_RANK, _CORE = "SWITCHML_LAB_RANK", "SWITCHML_LAB_CORE"  # variables of a rank
_PLAIN = re.compile(r"[A-Za-z0-9_./+~-]+")
_SOCKET_PATH = 107  # bytes, of sockaddr_un
_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Faults:
    """Faults that the switch injects, in both directions."""

    loss: float | None = None
    """Share of packets that are lost."""
    duplicate: float | None = None
    """Share of packets that are delivered twice."""
    reorder: float | None = None
    """Share of packets that are delivered after later ones."""
    delay: float | None = None
    """Milliseconds that each packet is held."""
    seed: int | None = None
    """Seed of the choice; None: another in each run."""
    lose_from: int | None = None
    """Rank of which all packets are lost on their way to the switch."""
    lose_to: int | None = None
    """Rank of which all answers are lost on their way from the switch."""

    @property
    def arguments(self) -> list[str]:
        """Arguments of the switch."""
        given = {name: value for name, value in vars(self).items() if value is not None}
        pairs = [(f"--{name.replace('_', '-')}", repr(value)) for name, value in given.items()]
        return [word for pair in pairs for word in pair]


@dataclass
class Lab:
    """Switch that runs."""

    directory: str
    port: int
    """Port of its controller."""
    companion: Companion
    timeout: int
    """Milliseconds after which a rank sends a packet again."""
    counters: Mapping[str, Any] = field(default_factory=dict)
    """Counters of the switch, once it has ended."""

    @property
    def config(self) -> str:
        """Text of the switchml.cfg of all ranks, which have `variables`."""
        rank, core = (f"${{{name}}}" for name in (_RANK, _CORE))
        return config.compose_lab(
            self.device(rank), self.port, rank=rank, cores=core, timeout=self.timeout
        )

    @property
    def variables(self) -> dict[str, list[str]]:
        """Variables of the ranks by name, with the value of each rank."""
        numbers = cpus()
        cores = [numbers[rank % len(numbers)] for rank in range(MOST)]
        return {_RANK: [*map(str, range(MOST))], _CORE: cores}

    def device(self, rank: int | str) -> str:
        """Device of a rank, for DPDK."""
        socket = _socket(self.directory, rank)
        return f"net_memif0,role=client,socket={socket},socket-abstract=no"

    def check(self) -> None:
        """Checks that the switch runs.

        Raises:
            ToolError: it has ended before the ranks; with its last lines.
        """
        if not self.companion.over.is_set():
            return
        ended = self.companion.completed
        how = ended.how or "ended"
        raise ToolError(
            "\n".join([f"the switch {how} before the ranks", *ended.last_lines(_SHOWN)])
        )


@contextlib.contextmanager
def running(switch: str, workers: int, faults: Faults) -> Iterator[Lab]:
    """Runs a switch with a port for each rank while the block lasts.

    Args:
        switch: path of the program.
        workers: ranks, `MOST` at most; 0 where it is not known: as many as there is room for.
        faults: faults that it injects.

    Raises:
        OptionsError: there is no directory whose path DPDK takes.
        ToolError: it does not start.
    """
    with _directory() as directory:
        counters = os.path.join(directory, "counters.json")
        command = [switch, "--listen", f"{_LOOPBACK}:0", "--json", counters, *faults.arguments]
        for number in range(workers or MOST):
            command += ["--port", f"memif:{_socket(directory, number)}"]
        with beside(Program(command, grace=_GRACE), limit=_READY) as companion:
            _, port = split_address(json.loads(companion.line)["listening"])
            timeout = _LOSSY if faults.loss else _PATIENT
            lab = Lab(directory, port, companion, timeout)
            yield lab
        with contextlib.suppress(FileNotFoundError), open(counters, encoding="ascii") as file:
            lab.counters = json.load(file)


def cpus() -> Sequence[str]:
    """Processors for the ranks, which take them in turn: each pins its thread to one."""
    return [str(number) for number in sorted(os.sched_getaffinity(0))]


@contextlib.contextmanager
def _directory() -> Iterator[str]:
    """Makes a directory whose path fits into a socket's address and into DPDK's options."""
    for place in (None, "/tmp", "/var/tmp"):  # noqa: S108  # a directory of ours is made in it
        with files.scratch("lab", place) as path:
            longest = os.fsencode(_socket(path, MOST))
            if _PLAIN.fullmatch(path) and len(longest) <= _SOCKET_PATH:
                yield path
                return
    raise OptionsError("TMPDIR: no directory whose path DPDK takes; name one of letters and digits")


def _socket(directory: str, number: int | str) -> str:
    return os.path.join(directory, f"port-{number}")
