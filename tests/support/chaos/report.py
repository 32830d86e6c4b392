"""A chaos run as it is started by tests and by `make chaos`, and its last lines."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from support.chaos.job import Starter
from support.chaos.plan import SECONDS, plan
from support.chaos.running import Chaos
from support.chaos.switches import Simulated
from support.chaos.wired import Wired
from support.launcher import Launcher

SHORT = 5
"""Events of a run that is part of other tests."""
_SCALE = 0.3  # of the times of its events
STEPS = {"convolutional": 150, "transformer": 150}
SHORT_STEPS = {"convolutional": 100}
_TIMEOUT = 20.0  # of the group


def add_options(parser: pytest.Parser) -> None:
    """Add the options of `make chaos` to pytest's."""
    group = parser.getgroup("chaos", "a training that is disturbed")
    group.addoption("--seed", type=int, default=1, help="Seed of the events and their moments.")
    group.addoption("--events", type=int, default=SHORT, help="Number of events.")


def prepare(
    request: pytest.FixtureRequest,
    launch: Launcher,
    switch: Simulated | Wired,
    world: int,
) -> Chaos:
    """Prepare trainings, which are short as a part of other tests."""
    directory: Path = request.getfixturevalue("tmp_path")
    temporary = directory / "temporary"
    temporary.mkdir()
    request.getfixturevalue("monkeypatch").setenv("TMPDIR", str(temporary))
    short = request.config.getoption("--events") <= SHORT
    env = {"SWITCHML_FAILOVER": "1", "SWITCHML_TIMEOUT_MS": "1000" if short else "2000"}
    starter = Starter(launch, world, switch.config, {**env, **switch.env}, _TIMEOUT)
    steps = SHORT_STEPS if short else STEPS
    return Chaos(starter, switch, directory, steps, temporary, say)


def say(line: str) -> None:
    """Write a line, also under pytest -s."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def check(chaos: Chaos, seed: int, count: int) -> None:
    """Run the events of a seed and check that nothing was wrong."""
    begun = time.monotonic()
    kinds = [*SECONDS]
    scale = _SCALE if count <= len(kinds) else 1.0
    say(f"\nseed {seed}: {count} events, {chaos.starter.world} ranks")
    outcome = chaos.run(plan(seed, count, kinds, scale), count)
    trainings = ", ".join(f"{number} of {name}" for name, number in outcome.trainings.items())
    say(
        f"{count} events in {time.monotonic() - begun:.0f} s: trainings to their end: {trainings}; "
        f"{outcome.attempts} starts, {outcome.failovers} failovers, {outcome.returns} returns; "
        f"at most {outcome.longest:.1f} s from an event to the next step"
    )
    for name, share in outcome.deviations.items():
        say(f"{name}: weights within {share:.2f} of what rounding explains, equal on all ranks")
    say(f"{len(outcome.problems)} problems")
    assert not outcome.problems, "\n".join(outcome.problems)
    assert outcome.trainings
