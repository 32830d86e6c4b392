"""The real client library on hosts with cables to the software switch, from one switchml.cfg."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.real import LabLauncher
from support.torch import results
from support.wired import WIRE, on_hosts, wired

SIZES = [1, 257, 100_003]
NOBODY = "02:00:00:00:00:99"


@pytest.mark.parametrize("shared", [False, True], ids=["a port each", "one port"])
def test_one_file_for_hosts(
    by_plugin: LabLauncher, switch: str, tmp_path: Path, *, shared: bool
) -> None:
    """MAC and address are those of the interface that the file names, on each host its own."""
    with wired(switch, 2, tmp_path, shared=shared) as network:
        ranks = results(on_hosts(by_plugin, network)("sums", 2, arguments={"sizes": SIZES}))
    for number, result in enumerate(ranks):
        assert result["report"]["delegating"] is True
        assert result["report"]["simulator"] is False
        filled = result["report"]["filled_in"].split()
        assert {f"rank={number}", f"worker_ip=10.83.81.{number + 1}"} <= {*filled}
    for worker in network.counters["workers"]:
        assert worker["summed"] > 2 * sum(SIZES) // 256
        assert worker["elsewhere"] == worker["malformed"] == 0
    assert len(network.counters["ports"]) == (1 if shared else 2)


def test_nobody_resolves_an_address(by_plugin: LabLauncher, switch: str, tmp_path: Path) -> None:
    """Neither ARP nor the neighbours of IPv6 are needed, and their frames do no harm."""
    with wired(switch, 2, tmp_path) as network:
        network.hosts[0].ip("link", "set", WIRE, "arp", "off")
        network.hosts[1].ip("neighbour", "replace", "10.83.81.1", "lladdr", NOBODY, "dev", WIRE)
        ranks = results(on_hosts(by_plugin, network)("sums", 2, arguments={"sizes": SIZES[:2]}))
    assert [result["report"]["delegating"] for result in ranks] == [True] * 2


@pytest.mark.parametrize("numel", [256, 64])
def test_an_interface_with_a_small_mtu(
    by_plugin: LabLauncher, switch: str, tmp_path: Path, numel: int
) -> None:
    """Packets of 256 elements are 1,062 bytes and do not pass on one host; those of 64 do."""
    with wired(switch, 2, tmp_path) as network:
        network.hosts[1].ip("link", "set", WIRE, "mtu", "1000")
        config = {"packet_numel": numel}
        ranks = on_hosts(by_plugin, network)("outcome", 2, config=config, timeout=20)
    delegating = [result["report"]["delegating"] for result in results(ranks)]
    assert delegating == [numel == 64] * 2
    if numel == 256:
        assert "ranks 0-1: the probe of " in ranks[0].err
        received = {one["rank"]: one["received"] for one in network.counters["workers"]}
        assert received.get(0, 0) > 0
        assert received.get(1, 0) == 0
