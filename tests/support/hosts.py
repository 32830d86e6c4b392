"""Hosts, which are network namespaces, and cables between them; what two of them train."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from support.launcher import Rank
from support.torch import results
from support.waiting import until

# One file for all, in which the leaders fill in their rank in their group, and its size.
ONE_FILE: Mapping[int, Mapping[str, object]] = {
    rank: {"rank": "auto", "num_workers": "auto"} for rank in range(4)
}
STEPS = 4  # of the trainings in payload/hierarchies.py
INTERFACE = "cable"
BRIDGE = "lan"
ADDRESS = "10.83.79.1"  # of the first host
SECOND = "10.83.79.2"
_NO_FILTER = (
    "filter=/proc/sys/net/bridge/bridge-nf-call-iptables; [ ! -e $filter ] || echo 0 >$filter"
)


def check_training(ranks: Sequence[Rank], leaders: Collection[int] = (0, 2)) -> None:
    """Check that only the leaders used SwitchML, once for each gradient."""
    for number, result in enumerate(results([*ranks])):
        assert result["leader"] == (number in leaders)
        counted = result["counted"]
        if result["leader"]:
            assert counted["bytes"] == result["gradients"]
            assert counted["calls"] > STEPS, "several buckets a step"
        else:
            assert counted == {"calls": 0, "bytes": 0}


@dataclass(frozen=True)
class Site:
    """A network namespace: that of a process."""

    pid: int
    enter: Sequence[str]
    """Words before a command that runs there."""

    @property
    def namespaces(self) -> str:
        """The directory of its namespaces."""
        return f"/proc/{self.pid}/ns"

    def ip(self, *words: str) -> None:
        subprocess.run([*self.enter, "ip", *words], check=True)

    def set_up(self, interface: str, address: str = "") -> None:
        """Set an interface up, with an address of a network of 256."""
        if address:
            self.ip("address", "add", f"{address}/24", "dev", interface)
        self.ip("link", "set", interface, "up")

    def limit(self, interface: str, rate: int) -> None:
        """Hold what an interface sends at a rate, Mbit/s.

        The bucket of tokens has what the rate passes in 10 ms, so that a busy machine loses none;
        the queue, 50 ms, has what TCP has under way.
        """
        shape = f"tbf rate {rate}mbit burst {1250 * rate} limit {6250 * rate}".split()
        tc = ["tc", "qdisc", "add", "dev", interface, "root"]
        subprocess.run([*self.enter, *tc, *shape], check=True)

    def pass_frames(self) -> None:
        """Let bridges pass frames whose IP checksum is left to the card."""
        subprocess.run([*self.enter, "sh", "-c", _NO_FILTER], check=True)

    def connect(self, interface: str, other: Site, end: str) -> None:
        """Make a cable between an interface here and one at another site."""
        cable = ["link", "add", "name", interface, "type", "veth", "peer", "name", end]
        self.ip(*cable, "netns", str(other.pid))


@contextlib.contextmanager
def sites(count: int) -> Iterator[list[Site]]:
    """Make network namespaces with only a loopback, and remove them after the block."""
    user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
    own = [] if os.geteuid() == 0 else ["unshare", "--map-root-user"]
    found: list[Site] = []
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            pid = _process(stack, found[0].enter if found else own)
            found.append(Site(pid, ["nsenter", *user, "--net", "--target", str(pid)]))
            found[-1].set_up("lo")
        yield found


@contextlib.contextmanager
def cabled(
    interface: str = INTERFACE, addresses: Sequence[str] = (ADDRESS, SECOND)
) -> Iterator[tuple[Site, Site]]:
    """Connect two hosts by a cable."""
    with sites(2) as (first, second):
        first.connect(interface, second, interface)
        for site, address in zip((first, second), addresses):
            site.set_up(interface, address)
        yield first, second


@contextlib.contextmanager
def joined(
    interface: str, addresses: Sequence[str], rates: Sequence[int] = ()
) -> Iterator[list[Site]]:
    """Yield the site of a bridge, then hosts at it, with an interface of that name each.

    The links of the first hosts have the rates, Mbit/s in each direction.
    """
    with sites(len(addresses) + 1) as (hub, *found):
        hub.ip("link", "add", "name", BRIDGE, "type", "bridge")
        hub.set_up(BRIDGE)
        hub.pass_frames()
        for number, (site, address) in enumerate(zip(found, addresses)):
            end = f"lan{number}"
            site.connect(interface, hub, end)
            hub.ip("link", "set", end, "master", BRIDGE)
            hub.set_up(end)
            site.set_up(interface, address)
            for rate in rates[number : number + 1]:
                hub.limit(end, rate)
                site.limit(interface, rate)
        yield [hub, *found]


def _process(stack: contextlib.ExitStack, way: Sequence[str]) -> int:
    """Start a process in its own network namespace, to end with this one; return its id."""
    process = stack.enter_context(
        subprocess.Popen([*way, "unshare", "--net", "cat"], stdin=subprocess.PIPE)
    )
    until(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "cat\n", process)
    return process.pid
