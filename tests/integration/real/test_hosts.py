"""The real client library on hosts with cables to the software switch, from one switchml.cfg."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import cluster, run_hosts, switch_program
from support.hosts import INTERFACE, SECOND, cabled
from support.torch import Plugin, results
from support.waiting import descendants, has_ended, until
from support.wired import FIRST, WIRE, compose, core, on_hosts, wired

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.real import LabLauncher

pytestmark = pytest.mark.integration

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


def test_run_over_hosts(plugin: Plugin, home: Path, switch: str, tmp_path: Path) -> None:
    """One switchml.cfg, and the same command on each host, whose ranks train together."""
    with wired(switch, 2, tmp_path) as network:
        config = tmp_path / "switchml.cfg"
        config.write_text(compose(home, network, {}))
        env = cluster.environment(TMPDIR=str(tmp_path), XDG_CACHE_HOME=str(tmp_path / "cache"))
        place = ["--require", f"--config={config}", "--nnodes=2", f"--rdzv-endpoint={FIRST}:29400"]
        program = [plugin.python, cluster.TRAINING, tmp_path]
        commands = [
            run_hosts.begin(
                tmp_path / f"host-{node}", [*place, f"--node-rank={node}"], program,
                {**env, "CORE": core(node)}, host.enter,
            )
            for node, host in enumerate(network.hosts)
        ]  # fmt: skip
        assert [command.code for command in commands] == [0, 0], [one.err for one in commands]
    cluster.check_trained(cluster.read_records(tmp_path, 2), 1)
    assert commands[0].report["simulated"] is False
    assert all(worker["summed"] > 0 for worker in network.counters["workers"])
    assert len(network.counters["workers"]) == 2


@contextlib.contextmanager
def run_with_lab(
    plugin: Plugin, cache: Path, scratch: Path, *arguments: str, backend: str = "static"
) -> Iterator[list[run_hosts.Command]]:
    """The same command on two hosts with a cable, of which the first has the switch.

    Its address is the higher one, so c10d gives it the higher rank.
    """
    program: list[str | Path] = [plugin.python, cluster.PROGRAM, scratch, *arguments]
    options = ["--require", f"--rdzv-backend={backend}"]
    with cabled() as (second, first):
        yield run_hosts.begin_in_lab(
            [first, second], cache, scratch, program, *options, address=SECOND
        )


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return switch_program.cache(tmp_path_factory)


@pytest.mark.parametrize("backend", ["static", "c10d"])
def test_run_makes_a_lab_over_hosts(
    plugin: Plugin, cache: Path, tmp_path: Path, backend: str
) -> None:
    """The first host's rank has a memif, the other one goes through the cable."""
    with run_with_lab(plugin, cache, tmp_path, backend=backend) as commands:
        assert [command.code for command in commands] == [0, 0], [one.err for one in commands]
    cluster.check_delegated(cluster.read_records(tmp_path, 2), 1)
    first, second = (command.report for command in commands)
    assert [worker["rank"] for worker in first["lab"]["workers"]] == [0, 1]
    assert all(worker["summed"] for worker in first["lab"]["workers"])
    assert first["lab"]["ports"][-1]["port"] == f"packet:{INTERFACE}"
    assert second["lab"] is None
    assert "packets" in commands[0].err.splitlines()[-4]


def test_a_switch_that_dies_ends_all_hosts(plugin: Plugin, cache: Path, tmp_path: Path) -> None:
    with run_with_lab(plugin, cache, tmp_path, "wait") as commands:
        until(lambda: len([*tmp_path.glob("*.pid")]) == 2, commands[0].process)
        (switch,) = (
            pid for pid in descendants(commands[0].process.pid)
            if Path(f"/proc/{pid}/comm").read_text() == "switchml-switch\n"
        )  # fmt: skip
        os.kill(switch, signal.SIGKILL)
        assert [command.code for command in commands] == [4, 4], [one.err for one in commands]
    why = "the switch died of SIGKILL before the ranks"
    assert f"error: {why}" in commands[0].err
    assert f"failed: {why}" in commands[1].last
    assert all(has_ended(path.stem) for path in tmp_path.glob("*.pid"))


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
