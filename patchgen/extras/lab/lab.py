"""Lab: ranks with the real client library, connected to a software switch."""

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
from patchgen.system.background import BackgroundProgram, beside
from patchgen.system.ports import split_address
from patchgen.system.process import Program

MOST = switches.WORKERS
"""Largest number of ranks of a lab."""

NO_DPDK = (
    "--lab: {library} has no DPDK; make one by: switchml-patch client build --dpdk -o DIR; "
    "then give --switchml-home DIR --dpdk"
)
"""Error for a client library that cannot be connected to the software switch."""

_READY, _GRACE = 30.0, 10.0  # seconds
_LOSSY, _PATIENT = 10, 200  # milliseconds; a busy machine delays packets that are not lost
_SHOWN = 3  # last lines of a switch that has ended
_RANK, _CORE = "SWITCHML_LAB_RANK", "SWITCHML_LAB_CORE"
# Without spaces, commas and brackets, which end DPDK's options, and #, which begins a comment.
_PLAIN = re.compile(r"[A-Za-z0-9_./+~-]+")
_SOCKET_PATH = 107  # bytes, of sockaddr_un
_LOOPBACK = "127.0.0.1"
# Each thread has two pools of so many buffers. EAL allocates so many MiB, enough for the pools of 5
# threads.
_POOL, _MEMORY = 8192, 256


@dataclass(frozen=True)
class Faults:
    """Faults that the switch injects, in both directions.

    `loss`, `duplicate` and `reorder` are shares of packets that are lost, delivered twice, or
    delivered after later packets. `delay` is the milliseconds that each packet is held.
    """

    loss: float | None = None
    duplicate: float | None = None
    reorder: float | None = None
    delay: float | None = None
    seed: int | None = None
    """Seed of the random choices; None for a random seed."""
    lose_from: int | None = None
    """Rank whose packets to the switch are all lost."""
    lose_to: int | None = None
    """Rank whose answers from the switch are all lost."""

    @property
    def arguments(self) -> list[str]:
        """Arguments of the switch's program."""
        given = {name: value for name, value in vars(self).items() if value is not None}
        pairs = [(f"--{name.replace('_', '-')}", repr(value)) for name, value in given.items()]
        return [word for pair in pairs for word in pair]


@dataclass
class Lab:
    """Running switch, and the configuration of its ranks."""

    directory: str
    port: int
    switch: BackgroundProgram
    timeout: int
    """Milliseconds after which a rank sends a packet again."""
    counters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def config(self) -> str:
        """Text of the switchml.cfg of all ranks, which refers to `variables`."""
        rank, core = (f"${{{name}}}" for name in (_RANK, _CORE))
        return compose(self.device(rank), self.port, rank=rank, cores=core, timeout=self.timeout)

    @property
    def variables(self) -> dict[str, list[str]]:
        """Values for each rank of the variables in `config`."""
        numbers = cpus()
        cores = [numbers[rank % len(numbers)] for rank in range(MOST)]
        return {_RANK: [*map(str, range(MOST))], _CORE: cores}

    def device(self, rank: int | str) -> str:
        """Return the DPDK device of a rank."""
        socket = _socket(self.directory, rank)
        return f"net_memif0,role=client,socket={socket},socket-abstract=no"

    def check(self) -> None:
        """Check that the switch is running.

        Raises:
            ToolError: it has ended before the ranks; the message has its last lines.
        """
        if not self.switch.over.is_set():
            return
        ended = self.switch.completed
        how = ended.how or "ended"
        raise ToolError(
            "\n".join([f"the switch {how} before the ranks", *ended.last_lines(_SHOWN)])
        )


@contextlib.contextmanager
def running(switch: str, workers: int, faults: Faults) -> Iterator[Lab]:
    """Run a switch with a port for each rank while the block lasts.

    `workers` is at most `MOST`; 0 makes as many ports as possible.

    Raises:
        OptionsError: no temporary directory has a path that DPDK accepts.
        ToolError: the switch does not start.
    """
    with _directory() as directory:
        counters = os.path.join(directory, "counters.json")
        command = [switch, "--listen", f"{_LOOPBACK}:0", "--json", counters, *faults.arguments]
        for number in range(workers or MOST):
            command += ["--port", f"memif:{_socket(directory, number)}"]
        with beside(Program(command, grace=_GRACE), limit=_READY) as program:
            _, port = split_address(json.loads(program.line)["listening"])
            timeout = _LOSSY if faults.loss else _PATIENT
            lab = Lab(directory, port, program, timeout)
            yield lab
        with contextlib.suppress(FileNotFoundError), open(counters, encoding="ascii") as file:
            lab.counters = json.load(file)


def compose(device: str, controller_port: int, *, rank: str, cores: str, timeout: int) -> str:
    """Compose the text for a rank of the lab, whose port is a virtual device of DPDK.

    Args:
        device: value of DPDK's option --vdev.
        controller_port: port of the controller on the loopback.
        rank: number of the rank, or a reference to a variable.
        cores: core of its thread, or a reference to a variable.
        timeout: milliseconds after which a packet is sent again.
    """
    # Without huge pages, cards, shared files and a telemetry socket, DPDK needs no privileges, and
    # its processes do not conflict.
    eal = (
        f"--no-huge --no-shconf -m {_MEMORY} --no-pci --no-telemetry --log-level=error "
        f"--vdev={device}"
    )
    values = {
        "general.num_worker_threads": "1",
        "general.max_outstanding_packets": "256",
        "general.packet_numel": "256",
        "general.backend": "dpdk",
        "general.controller_port": str(controller_port),
        "general.timeout": str(timeout),
        "backend.dpdk.worker_ip": f"10.83.77.{rank}",
        "backend.dpdk.cores": cores,
        "backend.dpdk.extra_eal_options": eal,
        "backend.dpdk.pool_size": str(_POOL),
        "backend.dpdk.pool_cache_size": "256",
        "backend.dpdk.bulk_drain_tx_us": "10",
    }
    return config.compose(values, ("general", "backend.dpdk"))


def cpus() -> Sequence[str]:
    """Return the processors for the ranks. Each rank pins its thread to one of them, in turn."""
    return [str(number) for number in sorted(os.sched_getaffinity(0))]


@contextlib.contextmanager
def _directory() -> Iterator[str]:
    """Create a directory whose path fits into a socket's address and into DPDK's options."""
    for place in (None, "/tmp", "/var/tmp"):  # noqa: S108  # a directory of ours is made in it
        with files.scratch("lab", place) as path:
            longest = os.fsencode(_socket(path, MOST))
            if _PLAIN.fullmatch(path) and len(longest) <= _SOCKET_PATH:
                yield path
                return
    raise OptionsError("TMPDIR: DPDK does not accept this path; give one of letters and digits")


def _socket(directory: str, number: int | str) -> str:
    return os.path.join(directory, f"port-{number}")
