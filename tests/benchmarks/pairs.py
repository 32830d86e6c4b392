"""Alternating measurements of two functions, and a limit of their ratio."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

SCRIPT = os.path.join(os.path.dirname(sys.executable), "switchml-patch")


def measure_wall(command: Sequence[str]) -> float:
    """Return the wall time of a command in seconds."""
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def measure_cpu(command: Sequence[str], *, check: bool = True) -> float:
    """Return the CPU time of a command in seconds, which varies less than its wall time.

    The command runs in an empty directory.
    """
    with tempfile.TemporaryDirectory() as directory:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, cwd=directory, check=check, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure_median(
    first: Callable[[], float], second: Callable[[], float], runs: int
) -> tuple[float, float]:
    """Return the pair with the median ratio of two measurements, which take turns."""
    pairs = [(first(), second()) for _ in range(runs)]
    ratio = statistics.median_low(a / b for a, b in pairs)
    return next((a, b) for a, b in pairs if a / b == ratio)


def measure_best(
    first: Callable[[], float], second: Callable[[], float], runs: int
) -> tuple[float, float]:
    """Return the least values of two measurements, which take turns."""
    pairs = [(first(), second()) for _ in range(runs)]
    return min(a for a, _ in pairs), min(b for _, b in pairs)


def show(name: str, ours: float, what: str, reference: float, limit: float) -> None:
    """Print both times and their ratio; exit with an error if it is above the limit."""
    print(f"{name} {ours:.3f} s, {what} {reference:.3f} s, ratio {ours / reference:.2f}")
    if ours > limit * reference:
        sys.exit(f"the ratio is above {limit}")
