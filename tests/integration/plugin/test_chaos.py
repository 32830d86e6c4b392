"""Trainings with the simulator, which go on while seeded events disturb them; see `make chaos`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.chaos.leftovers import Leftovers
from support.chaos.report import check, prepare
from support.chaos.switches import Simulated
from support.hosts import cabled
from support.launcher import Launcher

WORLD = 3


@pytest.fixture
def switch(tmp_path: Path, summing: Path) -> Simulated:
    return Simulated(summing, tmp_path / "counters", WORLD)


def test_a_training_outlives_all_events(
    launch: Launcher, switch: Simulated, request: pytest.FixtureRequest
) -> None:
    option = request.config.getoption
    check(prepare(request, launch, switch, WORLD), option("--seed"), option("--events"))


@pytest.mark.rebuild
def test_a_wrong_sum_is_found(
    launch: Launcher, switch: Simulated, request: pytest.FixtureRequest
) -> None:
    """A gradient that is spoiled once, on all ranks alike, shows in the weights."""
    outcome = prepare(request, launch, switch, WORLD, wrong=50).run([], 0)
    assert len(outcome.problems) == 1
    assert "a sum was wrong" in outcome.problems[0]


LISTENS = "import socket; s = socket.create_server(('127.0.0.1', 0)); print('ready', flush=True)"


def test_what_is_left_on_a_host_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("support.chaos.leftovers._SETTLE", 0.1)
    with cabled() as hosts:
        networks = [host.pid for host in hosts]
        assert Leftovers(tmp_path, networks).find([]) == []
        before = Leftovers(tmp_path, networks)
        command = [*hosts[1].enter, sys.executable, "-c", f"{LISTENS}; input()"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            left = before.find([])
            process.kill()
    assert [line.partition(" 0")[0] for line in left if line.startswith("socket")] == [
        "socket on host 1 at"
    ]
    assert any(line.startswith(f"process {process.pid}: ") for line in left)
