"""Wires of the hosts around a switch, and frames that are lost on them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support.chaos.wired import Wired
from support.torch import REPOSITORY
from support.wired import wired_hosts

PROGRAM = [sys.executable, str(REPOSITORY / "tests" / "payload" / "datagrams.py")]
PLACE = ["10.83.81.2", "9999"]  # the second host's wire
MANY, FEW = 2000, 20


def test_frames_are_lost_on_wires(tmp_path: Path) -> None:
    """A datagram and its answer go over two wires each."""
    with wired_hosts(2, shared=True) as network:
        near, far = (host.enter for host in network.hosts)
        wires = Wired(network, "no switch", tmp_path, tmp_path / "log")

        def count(number: int, patience: float) -> int:
            command = [*near, *PROGRAM, "count", *PLACE, str(number), str(patience)]
            return int(subprocess.check_output(command))

        with subprocess.Popen(
            [*far, *PROGRAM, "return", *PLACE], stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n"
                assert count(FEW, 10) == FEW
                with wires.losing(0.05):
                    assert 0.75 < count(MANY, 0.01) / MANY < 0.88  # 0.95 ** 4 is 0.81
                with wires.losing(1):
                    assert count(FEW, 0.01) == 0
                assert count(FEW, 10) == FEW
            finally:
                process.kill()
