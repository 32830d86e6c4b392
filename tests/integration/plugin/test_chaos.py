"""Trainings with the simulator, which go on while seeded events disturb them; see `make chaos`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from support.chaos.report import check, prepare
from support.chaos.switches import Simulated
from support.shared import once

from patchgen.client.simulator import aggregator

if TYPE_CHECKING:
    from pathlib import Path

    from support.launcher import Launcher

pytestmark = pytest.mark.integration

WORLD = 3


@pytest.fixture
def switch(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    cache = once(
        tmp_path_factory, "summing", lambda place: aggregator.build(str(place), os.environ)
    )
    return Simulated(cache, tmp_path / "counters", WORLD)


def test_a_training_outlives_all_events(
    launch: Launcher, switch: Simulated, request: pytest.FixtureRequest
) -> None:
    option = request.config.getoption
    check(prepare(request, launch, switch, WORLD), option("--seed"), option("--events"))


def test_a_wrong_sum_is_found(
    launch: Launcher, switch: Simulated, request: pytest.FixtureRequest
) -> None:
    """A gradient that is spoiled once, on all ranks alike, shows in the weights."""
    outcome = prepare(request, launch, switch, WORLD, wrong=50).run([], 0)
    assert len(outcome.problems) == 1
    assert "a sum was wrong" in outcome.problems[0]
