"""Workers with raw frames on interfaces, in a network namespace of the test's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from support import switch_interfaces, unprivileged
from support.switch_interfaces import FRAMES, WORKERS


def test_workers_sum_through_interfaces(switch_program: str, tmp_path: Path) -> None:
    private, script = unprivileged.unshare("--net"), str(Path(switch_interfaces.__file__))
    environ = {**os.environ, "PYTHONPATH": str(Path(script).parents[1])}
    command = [*private, sys.executable, script, switch_program, str(tmp_path)]
    ended = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environ, timeout=300)
    found = json.loads(ended.stdout)
    assert found["right"] == [True] * 2 * WORKERS
    for worker in found["workers"]:
        assert worker["summed"] == worker["answered"] == 2 * FRAMES
        assert worker["resent"] == worker["malformed"] == 0
    assert [port["departures"] for port in found["ports"]] == [1, 0]
    assert found["foreign"] == 0
