"""The command `simulator serve`, started and ended by a test."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchgen.extras.lab.simulator import aggregator
from patchgen.system import native
from support.shared import once
from support.waiting import ENOUGH, descendants


@pytest.fixture(scope="session")
def summing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache with the command's compiled program."""
    return once(
        tmp_path_factory,
        "summing",
        lambda place: native.get_or_build(aggregator.PROJECT, str(place), os.environ),
    )


def behind(port: int) -> dict[str, object]:
    """Return values of a switchml.cfg with a switch process at a port of this machine."""
    external = "true\n[backend.simulator]\nexternal_aggregator = true"
    return {"controller_port": port, "process_packets": external}


class Served:
    """Command that sums for ranks, and its address."""

    def __init__(self, process: subprocess.Popen[str], address: str, target: Path) -> None:
        self.process = process
        self.address = address
        self.target = target

    @property
    def config(self) -> dict[str, object]:
        """Values of the ranks' switchml.cfg."""
        return behind(int(self.address.rpartition(":")[2]))

    @property
    def aggregator(self) -> int:
        """Process that adds, which the command has started."""
        (program,) = (
            pid
            for pid in descendants(self.process.pid)
            if not os.path.samefile(f"/proc/{pid}/exe", sys.executable)
        )
        return program

    def end(self, number: int = signal.SIGTERM) -> tuple[int, dict[str, int], str]:
        """End the command; return exit code, counters without the workers', and output."""
        self.process.send_signal(number)
        output = self.process.communicate(timeout=ENOUGH)[1]
        assert "Sanitizer" not in output, output
        counters = json.loads(self.target.read_text())
        self.workers = counters.pop("workers")
        return self.process.returncode, counters, output


@contextlib.contextmanager
def serving(
    cache: Path, target: Path, workers: int, *before: str, host: str = "127.0.0.1"
) -> Iterator[Served]:
    """Start the command by `before`, and wait until it listens on an address of `host`."""
    command = [*before, sys.executable, "-m", "patchgen", "simulator", "serve"]
    command += ["--cache", str(cache), "--workers", str(workers)]
    with subprocess.Popen(
        [*command, "--listen", f"{host}:0", "--json", str(target)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.fullmatch(rf"listening on ({re.escape(host)}:\d+)\n", line)
            assert found, line
            yield Served(process, found[1], target)
        finally:
            process.kill()
