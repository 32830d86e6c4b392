"""The doctor names the check that is broken on purpose, and the host: with the real library.

The rows of docs/doctor.md that the simulator cannot show.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from support import command
from support.launcher import Launcher
from support.real import LabLauncher, Settings
from support.torch import GRAFT, Plugin, built_plugin
from support.wired import WIRE, Network, on_hosts, wired

from patchgen.extras.lab import lab

HOSTS = ("zeus", "apollo")
FAILED = 6


@pytest.fixture(scope="session")
def launch(by_plugin: LabLauncher) -> LabLauncher:
    return dataclasses.replace(by_plugin, settings=Settings(timeout=200), labs=[])


def arguments(timeout: float, *more: str) -> dict[str, Any]:
    return {
        "arguments": {"arguments": ["--timeout", str(timeout), *more]},
        "rank_env": {rank: {"SWITCHML_HOST": host} for rank, host in enumerate(HOSTS)},
    }


def read_report(launch: Launcher) -> dict[str, Any]:
    run = launch.scratch / f"run-{len(launch.runs)}"
    report: dict[str, Any] = json.loads((run / "0" / "report.json").read_text())
    return report


def examine(
    launch: LabLauncher,
    apollo: Mapping[str, object] | None = None,
    *,
    timeout: float = 40,
    code: int = FAILED,
    env: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Rank 0's report, where apollo's switchml.cfg has other values, and it other variables."""
    given = arguments(timeout, "--no-times")
    given["rank_env"][1] |= env or {}
    ranks = launch("doctor_cases:examine", 2, per_rank={1: apollo or {}}, **given)
    assert [rank.result["code"] for rank in ranks] == [code] * 2, ranks
    return read_report(launch)


def words(report: Mapping[str, Any], rank: int) -> str:
    return str(report["ranks"][rank]["checks"][report["check"]]["words"])


@dataclasses.dataclass(frozen=True)
class Changed(LabLauncher):
    """Lab in which a part of apollo's switchml.cfg is another one."""

    change: tuple[str, str] = ("", "")
    everywhere: tuple[str, str] = ("", "")

    def config(self, values: Mapping[str, object]) -> str:
        text = LabLauncher.config(self, values).replace(*self.everywhere)
        return text.replace(*self.change) if str(values["rank"]) == "1" else text


@dataclasses.dataclass(frozen=True)
class Moved(LabLauncher):
    """Lab in which apollo's port is at another switch."""

    socket: str = ""

    def config(self, values: Mapping[str, object]) -> str:
        text = LabLauncher.config(self, values)
        own = f"{self.labs[-1].directory}/port-1"
        return text.replace(own, self.socket) if str(values["rank"]) == "1" else text


def test_all_checks_hold(launch: LabLauncher) -> None:
    ranks = launch("doctor_cases:examine", 2, **arguments(40))
    assert [rank.result["code"] for rank in ranks] == [0, 0], ranks
    report = read_report(launch)
    assert report["holds"]
    assert report["times"]["sizes"][0]["switchml"] > 0
    for rank in report["ranks"]:
        assert rank["packets"]["sent"] >= rank["packets"]["answers"] > 0


def test_a_library_without_a_fix(
    launch: LabLauncher, half_batches: Path, torch: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """apollo's plugin was built with a client library that lacks one, of which clang++ warns."""
    other = built_plugin(
        torch, half_batches, tmp_path_factory, "half-batch-plugin", "--dpdk", environ=GRAFT
    )
    report = examine(launch, env={"PYTHONPATH": str(other.package.parent)})
    assert (report["check"], report["hosts"]) == ("software", ["apollo"])
    own, rank_0 = words(report, 1).removeprefix("fixes is ").split(", rank 0 has ")
    assert {*rank_0.split(",")} - {*own.split(",")} == {"half-batch"}


def test_no_controller(launch: LabLauncher) -> None:
    report = examine(launch, {"controller_ip": "127.0.0.2"})
    assert (report["check"], report["hosts"]) == ("controller", ["apollo"])
    assert "127.0.0.2" in words(report, 1)


SAME = ("--vdev=net_memif0,", "--vdev=net_memif0,mac=02:00:00:00:00:07,")


@pytest.mark.parametrize(
    ("change", "everywhere", "check", "output"),
    [
        (("10.83.77.1", "10.83.77.0"), SAME, "session", "rank 1 has the address of rank 0"),
        (("/port-1", "/port-9"), ("", ""), "session", "Error starting the port"),
        (("--no-huge ", ""), ("", ""), "machine", "huge page"),
    ],
    ids=["address of another", "no port", "no huge pages"],
)
def test_another_text(
    launch: LabLauncher, change: tuple[str, str], everywhere: tuple[str, str],
    check: str, output: str,
) -> None:  # fmt: skip
    report = examine(Changed(**vars(launch), change=change, everywhere=everywhere), timeout=16)
    assert (report["check"], report["hosts"]) == (check, ["apollo"])
    assert output in words(report, 1)


@pytest.mark.parametrize(
    "faults", [lab.Faults(lose_from=1), lab.Faults(lose_to=1)], ids=["to-it", "from-it"]
)
def test_all_packets_are_lost_one_way(launch: LabLauncher, faults: lab.Faults) -> None:
    report = examine(dataclasses.replace(launch, faults=faults), timeout=16)
    assert (report["check"], report["hosts"]) == ("answers", ["apollo"])
    assert words(report, 1).startswith("sent ")
    assert words(report, 1).endswith(", no answer")


def test_a_card_that_the_switch_does_not_know(launch: LabLauncher) -> None:
    """apollo's cable is in another switch, which knows the address of nobody."""
    with lab.running(launch.switch, 2, lab.Faults()) as other:
        socket = f"{other.directory}/port-1"
        moved = Moved(**vars(launch), socket=socket)
        report = examine(moved, timeout=16)
    assert (report["check"], report["hosts"]) == ("answers", ["apollo"])


def test_other_cores_than_threads(launch: LabLauncher) -> None:
    report = examine(launch, {"cores": "0,1"})
    assert (report["check"], report["hosts"]) == ("switchml.cfg", ["apollo"])
    assert "cores = 0,1 names 2 cores, but num_worker_threads = 1" in words(report, 1)


def examine_hosts(
    by_plugin: LabLauncher,
    switch: str,
    scratch: Path,
    prepare: Callable[[Network], None],
    *,
    shared: bool = False,
) -> dict[str, Any]:
    """Rank 0's report, where ranks are on hosts with cables to the switch."""
    with wired(switch, 2, scratch, shared=shared) as network:
        prepare(network)
        launch = on_hosts(by_plugin, network)
        ranks = launch("doctor_cases:examine", 2, **arguments(16, "--no-times"))
    assert [rank.result["code"] for rank in ranks] == [FAILED] * 2, ranks
    return read_report(launch)


def test_a_small_mtu(by_plugin: LabLauncher, switch: str, tmp_path: Path) -> None:
    wire = ("link", "set", WIRE, "mtu", "1000")
    report = examine_hosts(by_plugin, switch, tmp_path, lambda found: found.hosts[1].ip(*wire))
    assert (report["check"], report["hosts"]) == ("machine", ["apollo"])
    assert words(report, 1) == f"the MTU of {WIRE} is 1000, packets need 1062"


def test_a_cable_without_a_link(by_plugin: LabLauncher, switch: str, tmp_path: Path) -> None:
    port = ("link", "set", "port1", "down")
    report = examine_hosts(by_plugin, switch, tmp_path, lambda found: found.hub.ip(*port))
    assert (report["check"], report["hosts"]) == ("machine", ["apollo"])
    assert words(report, 1) == f"{WIRE} has no link"


def test_a_port_with_the_address_of_another(
    by_plugin: LabLauncher, switch: str, tmp_path: Path
) -> None:
    """What goes to apollo's card is sent to the port of zeus."""

    def swap(network: Network) -> None:
        apollo = network.hosts[1]
        shown = subprocess.run(
            [*apollo.enter, "ip", "-j", "link", "show", WIRE], capture_output=True, check=True
        )
        address = json.loads(shown.stdout)[0]["address"]
        command = f"bridge fdb replace {address} dev port0 master sticky static"
        subprocess.run([*network.hub.enter, *command.split()], check=True)

    report = examine_hosts(by_plugin, switch, tmp_path, swap, shared=True)
    assert (report["check"], report["hosts"]) == ("answers", ["apollo"])


@pytest.mark.parametrize(("faults", "check"), [([], ""), (["--loss", "1"], "answers")])
def test_the_command(
    plugin: Plugin, switch_cache: Path, tmp_path: Path, faults: list[str], check: str
) -> None:
    """The command makes the lab, and its exit code tells whether a check fails."""
    given = ["--lab", *faults, "--timeout", "16", "--json"]
    given += ["--torch", str(plugin.python), "--cache", str(switch_cache)]
    done = command.run("doctor", *given, cwd=tmp_path)
    assert done.returncode == (FAILED if check else 0), done.stderr
    report = json.loads(done.stdout)
    assert report["check"] == check
    assert report["times"] is None if check else report["times"]["switch"] == "in software"
    for rank in report["ranks"]:
        assert rank["packets"]["sent"] > 0
        assert bool(rank["packets"]["answers"]) == (not check)
