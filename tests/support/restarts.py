"""A job of which ranks are killed at random moments, and which its launcher starts again."""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path

from support.waiting import captured

PROGRAM = Path(__file__).parents[1] / "payload" / "restarted_rank.py"
WORLD = 2
STEPS, SAVED = 24, 4
"""Steps of the job, and between two checkpoints."""
RESTARTS = 2


def by_run(*options: str | Path) -> list[str]:
    """Return the command `run` with its options, up to the program."""
    command = [sys.executable, "-m", "patchgen", "run", "--require", f"--workers={WORLD}"]
    return [*command, f"--max-restarts={RESTARTS}", *map(str, options)]


def by_torchrun(python: Path) -> list[str]:
    """Return torchrun of an interpreter, up to the program."""
    options = (f"--nproc-per-node={WORLD}", f"--max-restarts={RESTARTS}")
    return [str(python), "-m", "torch.distributed.run", "--standalone", *options]


def plan_kills(seed: int, number: int = RESTARTS) -> list[tuple[int, int, float]]:
    """Choose a victim, a step and a delay for each attempt but the last."""
    chance = random.Random(seed)
    return [
        (chance.randrange(WORLD), chance.randrange(-1, STEPS), chance.uniform(0, 0.005))
        for _ in range(number)
    ]


def check_goes_on(
    command: list[str],
    place: Path,
    backend: str,
    kills: list[tuple[int, int, float]],
    **env: str,
) -> None:
    """Run the job, and check that it continues from its checkpoint and delegates."""
    left = ("SWITCHML_", "TORCH", "PYTHONPATH")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left)}
    environ = {**kept, "OMP_NUM_THREADS": "1", **env}
    done = captured(
        [*command, str(PROGRAM), str(place), backend, json.dumps(kills)], cwd=place, env=environ
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for rank in range(WORLD):
        seen = json.loads((place / f"{rank}.json").read_text())
        assert (seen["attempt"], seen["right"]) == (len(kills), True), seen
        assert seen["begin"] in range(0, STEPS + 1, SAVED), seen
        report = seen["report"]
        assert report["calls"] == STEPS - seen["begin"], seen
        assert (report["delegating"], report["failure"]) == (True, ""), seen
