"""Trainings with the simulator, which go on while seeded events disturb them; see `make chaos`."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.chaos.report import check, prepare
from support.chaos.switches import Simulated
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
