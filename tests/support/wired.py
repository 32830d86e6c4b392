"""Hosts around a software switch, as network namespaces: ranks with the real client library."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from patchgen.extras.lab import lab
from patchgen.system.background import beside
from patchgen.system.process import Program
from support.configs import with_values
from support.hosts import BRIDGE, Site, joined
from support.launcher import Launcher, Started

LAN, WIRE = "lan", "wire"
"""Interfaces of a host: to the other hosts and the controller, and to a port of the switch."""
PORT = "port"
"""Begin of the name of a wire's end at the switch; the host's number follows."""

CONTROLLER = "10.83.80.254"
FIRST = "10.83.80.1"
"""Address of the first host on the LAN."""
_READY = 30.0  # seconds
_EAL = (
    "--no-huge --no-shconf -m 256 --no-pci --no-telemetry --log-level=error "
    f"--vdev=net_af_packet0,iface={WIRE}"
)


@dataclass
class Network:
    """Hosts around a switch."""

    hub: Site
    """Site of the switch."""
    hosts: Sequence[Site]
    interfaces: Sequence[str]
    """Interfaces of the switch."""
    port: str = ""
    """Port of the controller."""
    counters: Mapping[str, Any] = field(default_factory=dict)
    """Counters of the switch, once it has ended."""


@contextlib.contextmanager
def wired_hosts(count: int, *, shared: bool = False) -> Iterator[Network]:
    """Make hosts with a wire each to a future switch; remove them after the block.

    Where it is `shared`, the switch has one interface, which a bridge joins with all wires.
    """
    with joined(LAN, [f"10.83.80.{number + 1}" for number in range(count)]) as (hub, *hosts):
        hub.set_up(BRIDGE, CONTROLLER)
        if shared:
            hub.ip("link", "add", "name", "ports", "type", "bridge")
            hub.ip("link", "add", "name", "card", "type", "veth", "peer", "name", "socket")
            hub.ip("link", "set", "socket", "master", "ports")
            for name in ("ports", "card", "socket"):
                hub.set_up(name)
        for number, host in enumerate(hosts):
            end = f"{PORT}{number}"
            host.connect(WIRE, hub, end)
            if shared:
                hub.ip("link", "set", end, "master", "ports")
            hub.set_up(end)
            host.set_up(WIRE, f"10.83.81.{number + 1}")
        names = ["card"] if shared else [f"{PORT}{number}" for number in range(count)]
        yield Network(hub, hosts, names)


@contextlib.contextmanager
def wired(
    switch: str, count: int, scratch: Path, *options: str, shared: bool = False
) -> Iterator[Network]:
    """Run a switch with a wire to each of some hosts while the block lasts.

    Where it is `shared`, the switch has one interface.
    """
    counters = scratch / "counters.json"
    with wired_hosts(count, shared=shared) as network:
        ports = [f"--port=packet:{name}" for name in network.interfaces]
        given = [f"--listen={CONTROLLER}:0", *ports, f"--json={counters}", *options]
        command = Program([*network.hub.enter, switch, *given], grace=10)
        with beside(command, limit=_READY) as program:
            network.port = json.loads(program.line)["listening"].rpartition(":")[2]
            yield network
        network.counters = json.loads(counters.read_text())


def compose(home: Path, network: Network, values: Mapping[str, object]) -> str:
    """Compose one switchml.cfg for all hosts: the installed one, with what the lab needs."""
    own = {
        "rank": "auto",
        "num_workers": "auto",
        "num_worker_threads": 1,
        "max_outstanding_packets": 64,
        "controller_ip": CONTROLLER,
        "controller_port": network.port,
        "timeout": 200,
        "worker_ip": f"interface:{WIRE}",
        "cores": "${CORE}",  # the hosts share the processors of this machine
        "extra_eal_options": _EAL,
    }
    return with_values((home / "switchml.cfg").read_text(), {**own, **values})


def core(host: int) -> str:
    """Return the processor core for a host's rank."""
    cores = lab.cpus()
    return cores[host % len(cores)]


@dataclass(frozen=True)
class HostLauncher(Launcher):
    """Ranks with a host each, and one switchml.cfg for all of them."""

    network: Network | None = None

    def config(self, values: Mapping[str, object]) -> str:
        assert self.network is not None
        numbers = {"rank", "num_workers", "controller_port"}
        given = {key: value for key, value in values.items() if key not in numbers}
        return compose(self.home, self.network, given)

    def begin(self, case: str, world: int, **given: Any) -> list[Started]:
        assert self.network is not None
        rank_env = {
            rank: {
                "SWITCHML_TEST_HOST": host.namespaces,
                "CORE": core(rank),
                **given.get("rank_env", {}).get(rank, {}),
            }
            for rank, host in enumerate(self.network.hosts)
        }
        given.pop("rank_env", None)
        env = {"MASTER_ADDR": FIRST, "GLOO_SOCKET_IFNAME": LAN, **given.pop("env", {})}
        config = {"prepostprocessor": "cpu_exponent_quantizer", **given.pop("config", {})}
        return super().begin(case, world, env=env, rank_env=rank_env, config=config, **given)


def on_hosts(launcher: Launcher, network: Network) -> HostLauncher:
    """Return a launcher with the same torch, whose ranks are on hosts of a network."""
    names = {one.name for one in fields(HostLauncher)} - {"network"}
    return HostLauncher(**{name: getattr(launcher, name) for name in names}, network=network)
