"""Trainings that go on: ranks are killed at any moment, and whatever `make chaos` does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.chaos.report import check, prepare
from support.chaos.switches import Simulated
from support.launcher import Launcher
from support.restarts import WORLD, by_run, by_torchrun, check_goes_on, plan_kills
from support.serving import serving
from support.torch import Plugin

from patchgen.extras.lab.simulator import compose_simulated

EARLY, LATER = 15, 9  # seeds of a kill before there is a group, and of one in a sum


def test_the_simulator_in_rank_0(light: Plugin, tmp_path: Path) -> None:
    """The switch dies with rank 0. The report has the ranks of the last attempt."""
    command = by_run("--torch", light.python, "--report=report.json")
    check_goes_on(command, tmp_path, "gloo", plan_kills(EARLY, 1))
    ranks = json.loads((tmp_path / "report.json").read_text())["ranks"]
    assert [(rank["rank"], rank["final"]) for rank in ranks] == [(0, True), (1, True)]
    seen = [json.loads((tmp_path / f"{rank}.json").read_text())["report"] for rank in range(WORLD)]
    assert [rank["report"]["calls"] for rank in ranks] == [one["calls"] for one in seen]


@pytest.mark.rebuild
def test_simulator_serve(plugin: Plugin, summing: Path, tmp_path: Path) -> None:
    """The switch stays, and so does what the dead rank has left in it."""
    with serving(summing, tmp_path / "counters", WORLD) as switch:
        config = tmp_path / "switchml.cfg"
        config.write_text(compose_simulated(aggregator=switch.address))
        check_goes_on(
            by_torchrun(plugin.python),
            tmp_path,
            "switchml",
            plan_kills(LATER, 1),
            SWITCHML_CONFIG=str(config),
            SWITCHML_REQUIRE="1",
            SWITCHML_FAILOVER="1",
            TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1",
        )
        code, counters, _ = switch.end()
    assert (code, counters["sessions"], counters["broken"]) == (0, 2, 1)


@pytest.mark.rebuild
def test_a_training_outlives_all_events(
    launch: Launcher, summing: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    ranks, option = 3, request.config.getoption
    switch = Simulated(summing, tmp_path / "counters", ranks)
    check(prepare(request, launch, switch, ranks), option("--seed"), option("--events"))
