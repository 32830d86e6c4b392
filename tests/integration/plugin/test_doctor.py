"""The doctor names the check that is broken on purpose, and the host on which it is.

The rows of docs/doctor.md that need no client library of SwitchML.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support import command, messages
from support.launcher import Launcher
from support.one_way import lossy
from support.serving import serving
from support.torch import Plugin
from support.waiting import SHORT, captured

from patchgen.system.ports import free_port

HOSTS = ("zeus", "apollo")
BOTH = ["apollo", "zeus"]
TIMEOUT = 40.0  # of the doctor, which no test waits for
FAILED = 6


def examine(
    launch: Launcher,
    *,
    world: int = 2,
    timeout: float = TIMEOUT,
    others: Mapping[str, object] | None = None,
    rank_env: Mapping[int, Mapping[str, str]] | None = None,
    config: Mapping[str, object] | None = None,
    code: int = FAILED,
    twice: int | None = None,
    **given: Any,
) -> dict[str, Any]:
    """Rank 0's report; all ranks end with the same code."""
    own = {rank: {"SWITCHML_HOST": HOSTS[min(rank, 1)]} for rank in range(world)}
    for rank, more in (rank_env or {}).items():
        own[rank].update(more)
    ranks = launch(
        "doctor_cases:examine",
        world,
        arguments={
            "arguments": ["--timeout", str(timeout), "--no-times"],
            "others": others,
            "twice": twice,
        },
        config={"rank": "auto", "num_workers": "auto", **(config or {})},
        rank_env=own,
        **given,
    )
    assert [rank.result["code"] for rank in ranks] == [code] * world, ranks
    run = launch.scratch / f"run-{len(launch.runs)}"
    report: dict[str, Any] = json.loads((run / "0" / "report.json").read_text())
    return report


def words(report: Mapping[str, Any], rank: int) -> str:
    """Finding of the rank at the check that fails."""
    found = next(one for one in report["ranks"] if one["rank"] == rank)
    return str(found["checks"][report["check"]]["words"])


def test_all_checks_hold(launch: Launcher) -> None:
    report = examine(launch, code=0)
    assert (report["holds"], report["check"], report["hosts"]) == (True, "", [])
    for rank in report["ranks"]:
        states = {name: one["state"] for name, one in rank["checks"].items()}
        assert states == dict.fromkeys(report["checks"], "ok")
        packets = rank["packets"]
        assert packets["sent"] == packets["answers"] > 0


def test_a_rank_that_does_not_come(launch: Launcher) -> None:
    report = examine(launch, env={"WORLD_SIZE": "3"}, timeout=SHORT)
    assert report["check"] == "ranks"
    assert words(report, 2) == "did not come"


def test_a_rank_that_is_started_twice(launch: Launcher) -> None:
    env, other = {"WORLD_SIZE": "2"}, {2: {"RANK": "1", "SWITCHML_HOST": "x"}}
    report = examine(launch, world=3, env=env, rank_env=other, twice=1)
    assert (report["check"], report["hosts"]) == ("ranks", ["apollo", "x"])
    assert "has this rank as well" in words(report, 1)


@pytest.mark.parametrize(
    ("given", "check", "output"),
    [
        ({"others": {"1": "none"}}, "software", "has no SwitchML"),
        ({"others": {"1": {"sources": "other"}}}, "software", "sources is other, rank 0 has "),
        ({"others": {"1": {"flags": "DPDK"}}}, "software", "flags is DPDK, rank 0 has none"),
        ({"others": {"1": {"client": "fixes=x,y"}}}, "software", "fixes is x,y, rank 0 has none"),
        ({"per_rank": {1: None}}, "switchml.cfg", r"^no switchml.cfg \(looked at "),
        ({"config": {"rank": 0}}, "switchml.cfg", messages.OTHER_RANK.format(0, 1)),
        ({"per_rank": {1: {"packet_numel": 9}}}, "settings", "^packet_numel=9 differ from rank 0$"),
    ],
    ids=["no plugin", "version", "plugin", "fixes", "no configuration", "rank", "settings"],
)
def test_a_host_that_is_not_as_the_first(
    launch: Launcher, given: dict[str, Any], check: str, output: str
) -> None:
    report = examine(launch, **given)
    assert (report["check"], report["hosts"]) == (check, ["apollo"])
    assert re.search(output, words(report, 1))


def test_a_plugin_of_another_torch(launch: Launcher, plugin: Plugin, stale: Plugin) -> None:
    """Ranks as of srun, whose variables the plugin reads as well."""
    run, port = launch.prepare(2, config={"rank": "auto", "num_workers": "auto"}), free_port()
    started = [
        launch.start(
            [str(python), "-m", "switchml_doctor", "--report", "report.json", "--timeout", "40"],
            run / str(rank),
            launch.environment(
                {"SLURM_PROCID": str(rank), "SLURM_NTASKS": "2", "SWITCHML_HOST": HOSTS[rank],
                 "MASTER_PORT": str(port)},
                preload=False,
            ),
        )
        for rank, python in enumerate([plugin.python, stale.python])
    ]  # fmt: skip
    assert [rank.code for rank in launch.collect(started, 240)] == [FAILED] * 2
    report = json.loads((run / "0" / "report.json").read_text())
    assert (report["check"], report["hosts"]) == ("software", ["apollo"])
    assert words(report, 1).startswith("torch_switchml was built for torch 0.")
    assert "; build it again with: switchml-patch plugin build --torch " in words(report, 1)


def test_nobody_adds(launch: Launcher) -> None:
    """The simulator has no controller: its library looks for the aggregator when it starts."""
    env = {"SWITCHML_START_TIMEOUT_MS": "2000"}
    report = examine(launch, config=outside(f"127.0.0.1:{free_port()}"), env=env)
    assert (report["check"], report["hosts"]) == ("session", BOTH)


def outside(address: str) -> dict[str, object]:
    """Values of a switchml.cfg for an aggregator of its own."""
    host, _, port = address.rpartition(":")
    external = "bypass\n\n[backend.simulator]\nexternal_aggregator = true\n\n[general]"
    return {"controller_ip": host, "controller_port": port, "prepostprocessor": external}


def test_a_session_for_others(launch: Launcher, summing: Path, tmp_path: Path) -> None:
    with serving(summing, tmp_path / "counters", 3) as switch:
        report = examine(launch, config=outside(switch.address))
    assert (report["check"], report["hosts"]) == ("session", BOTH)
    assert "refused" in words(report, 1)


@pytest.mark.parametrize("upwards", [True, False], ids=["to-the-switch", "from-the-switch"])
def test_all_packets_are_lost(
    launch: Launcher, summing: Path, tmp_path: Path, *, upwards: bool
) -> None:
    """Where nothing of one rank comes to the switch, it has no answer for the other one either."""
    with (
        serving(summing, tmp_path / "counters", 2) as switch,
        lossy(switch.address, 1, upwards=upwards) as address,
    ):
        report = examine(launch, config=outside(address), timeout=SHORT)
    assert (report["check"], report["hosts"]) == ("answers", BOTH if upwards else ["apollo"])
    sent = report["ranks"][1]["packets"]["sent"]
    assert sent > 0
    assert words(report, 1) == f"sent {sent}, no answer"


def test_what_is_not_started_by_a_launcher(light: Plugin) -> None:
    done = captured([light.python, "-m", "switchml_doctor"], env={"PATH": "/usr/bin"})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("doctor: RANK is not set; start it by torchrun, srun or mpirun")


def test_a_report_that_cannot_be_written(light: Plugin, tmp_path: Path) -> None:
    """It is told before the ranks meet."""
    place = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    path = tmp_path / "none" / "report.json"
    environ = {"PATH": "/usr/bin", **place}
    done = captured([light.python, "-m", "switchml_doctor", "--report", path], env=environ)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"doctor: --report {path}: cannot be written; name a file")


def test_the_command(light: Plugin, tmp_path: Path) -> None:
    """On this machine, with the plugin that is installed."""
    doctor = ["-m", "patchgen", "doctor", "--json", "--cache", str(tmp_path / "cache")]
    done = captured([sys.executable, *doctor, "--torch", light.python], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["holds"]
    assert report["times"]["switch"] == "simulated"
    sizes = report["times"]["sizes"]
    assert sizes[0]["numel"] == 256
    assert all(one["switchml"] > 0 < one["gloo"] for one in sizes)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--workers=1"], 2, "'--workers': 1 is not in the range"),
        (["--variant=stock"], 2, "'--variant': 'stock' is not one of"),
        (["--config=none"], 2, "none: No such file or directory; give a switchml.cfg"),
        (["--timeout=0"], 2, "'--timeout': 0.0 is not in the range"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_options_that_are_refused(
    tmp_path: Path, options: list[str], code: int, message: str
) -> None:
    done = command.run("doctor", *options, "--torch", sys.executable, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (code, "")
    (line,) = [one for one in done.stderr.splitlines() if one.lower().startswith("error: ")]
    assert message in line
    assert "Traceback" not in done.stderr
    assert not [*tmp_path.iterdir()]
