"""Switches of a job over hosts, which run on the first: the simulator's, and that of the lab."""

from __future__ import annotations

import contextlib
import json
import threading
from typing import TYPE_CHECKING

from patchgen.errors import OptionsError
from patchgen.extras.lab.lab import Faults, Network, running
from patchgen.extras.lab.simulator import aggregator
from patchgen.system.companion import beside
from patchgen.system.network import find_interface
from patchgen.system.process import Program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from patchgen.extras.lab.lab import Lab
    from patchgen.extras.train.job import Hosts, Job

_READY, _GRACE = 30.0, 10.0  # seconds of the aggregator


@contextlib.contextmanager
def run_aggregator(job: Job, hosts: Hosts) -> Iterator[str]:
    """Runs the simulator's switch on this host; yields its address.

    Raises:
        ToolError: it cannot be built or started.
    """
    program = aggregator.build(job.cache, job.environ)
    address = hosts.all[0].address
    place = f"[{address}]:0" if ":" in address else f"{address}:0"
    command = [program, f"--listen={place}", f"--workers={hosts.size}"]
    with beside(Program(command, grace=_GRACE), limit=_READY) as companion:
        yield json.loads(companion.line)["listening"]


@contextlib.contextmanager
def run_lab(switch: str, job: Job, hosts: Hosts, fail: Callable[[], None]) -> Iterator[Lab]:
    """Runs the software switch on this host.

    Args:
        switch: path of the program.
        job: the job.
        hosts: its hosts.
        fail: called where the switch ends before the block.

    Raises:
        OptionsError: the other hosts cannot reach it.
        ToolError: it cannot be started.
    """
    network = Network(hosts.here.address, find_wire(hosts))
    over = threading.Event()
    with running(switch, hosts.here.ranks, job.faults or Faults(), network) as lab:

        def watch() -> None:
            lab.companion.over.wait()
            if not over.is_set():
                fail()

        threading.Thread(target=watch, daemon=True).start()
        try:
            yield lab
        finally:
            over.set()


def find_wire(hosts: Hosts) -> str:
    """Finds the interface by which the other hosts reach this one.

    Raises:
        OptionsError: there is none that a switch can be reached by.
    """
    name, address = hosts.here.name, hosts.here.address
    interface = "" if ":" in address else find_interface(address)
    if interface in {"", "lo"}:
        raise OptionsError(
            f"--lab: {name} is {address} for the others, which is no IPv4 address of a network; "
            "name one in --rdzv-endpoint"
        )
    return interface
