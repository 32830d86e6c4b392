"""Trainings with the simulator, which go on while seeded events disturb them; see `make chaos`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from support.chaos.job import Starter
from support.chaos.report import SHORT, SHORT_STEPS, STEPS, check, say
from support.chaos.running import Chaos
from support.chaos.switches import Simulated
from support.shared import once

from patchgen.client.simulator import aggregator

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.launcher import Launcher

pytestmark = pytest.mark.integration

WORLD = 3
TIMEOUT = 20.0  # of the group


@pytest.fixture
def make(
    launch: Launcher,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Callable[..., Chaos]:
    cache = once(
        tmp_path_factory, "summing", lambda place: aggregator.build(str(place), os.environ)
    )
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    short = request.config.getoption("--events") <= SHORT

    def chaos(wrong: int = -1) -> Chaos:
        switch = Simulated(cache, tmp_path / "counters", WORLD)
        env = {"SWITCHML_FAILOVER": "1", "SWITCHML_TIMEOUT_MS": "1000" if short else "2000"}
        starter = Starter(launch, WORLD, switch.config, env, TIMEOUT)
        steps = SHORT_STEPS if short else STEPS
        return Chaos(starter, switch, tmp_path, steps, temporary, say, wrong=wrong)

    return chaos


def test_a_training_outlives_all_events(
    make: Callable[..., Chaos], request: pytest.FixtureRequest
) -> None:
    option = request.config.getoption
    check(make(), option("--seed"), option("--events"))


def test_a_wrong_sum_is_found(make: Callable[..., Chaos]) -> None:
    """A gradient that is spoiled once, on all ranks alike, shows in the weights."""
    outcome = make(wrong=50).run([], 0)
    assert len(outcome.problems) == 1
    assert "a sum was wrong" in outcome.problems[0]
