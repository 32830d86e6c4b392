"""A job of which a rank is killed, and which its launcher starts again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from support.waiting import ENOUGH

if TYPE_CHECKING:
    from collections.abc import Mapping

PROGRAM = Path(__file__).parents[1] / "payload" / "restarted_rank.py"
WORLD = 2
OPTIONS = (f"--nproc-per-node={WORLD}", "--max-restarts=2")


def by_run(*options: str | Path) -> list[str]:
    """The command `run` with its options, up to the program."""
    command = [sys.executable, "-m", "patchgen", "run", "--require", "--standalone", *OPTIONS]
    return [*command, *map(str, options)]


def by_torchrun(python: Path) -> list[str]:
    """torchrun of an interpreter, up to the program."""
    return [str(python), "-m", "torch.distributed.run", "--standalone", *OPTIONS]


def check_goes_on(command: list[str], place: Path, backend: str, victim: int, **env: str) -> None:
    """Runs the job, and checks that it goes on from its checkpoint, right and delegating."""
    environ = {**_environment(), "OMP_NUM_THREADS": "1", **env}
    done = subprocess.run(
        [*command, str(PROGRAM), str(place), backend, str(victim)],
        cwd=place, env=environ, capture_output=True, text=True, check=False, timeout=ENOUGH,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for rank in range(WORLD):
        seen = json.loads((place / f"{rank}.json").read_text())
        assert (seen["attempt"], seen["begin"], seen["right"]) == (1, 4, True), seen
        report = seen["report"]
        assert (report["delegating"], report["calls"], report["failure"]) == (True, 8, ""), seen


def _environment() -> Mapping[str, str]:
    left = ("SWITCHML_", "TORCH", "PYTHONPATH")
    return {name: value for name, value in os.environ.items() if not name.startswith(left)}
