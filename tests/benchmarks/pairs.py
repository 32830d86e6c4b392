"""Comparisons of two things that are timed in turns: the median of their ratios, and its spread."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Comparison:
    """Times of the measured thing and of its reference, in seconds, by pair."""

    ours: Sequence[float]
    reference: Sequence[float]

    @property
    def ratios(self) -> list[float]:
        """Ratio of each pair, in ascending order."""
        return sorted(a / b for a, b in zip(self.ours, self.reference))

    @property
    def ratio(self) -> float:
        """Median of the ratios."""
        return statistics.median(self.ratios)

    def describe(self, reference: str, *, unit: str = "s", per_second: float = 1) -> str:
        """Return both median times and the ratio with its spread, as one line."""
        ours, theirs = (
            f"{statistics.median(times) * per_second:.3f} {unit}"
            for times in (self.ours, self.reference)
        )
        return f"{ours}, {reference} {theirs}, ratio {self.describe_ratio()}"

    def describe_ratio(self) -> str:
        """Return the median ratio and the range of the ratios."""
        ratios = self.ratios
        return f"{self.ratio:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}, {len(ratios)} pairs)"


def compare(ours: Callable[[], float], reference: Callable[[], float], pairs: int) -> Comparison:
    """Take two measurements in turns, so that a slower machine slows both."""
    found = [(ours(), reference()) for _ in range(pairs)]
    return Comparison([a for a, _ in found], [b for _, b in found])


def read_comparisons(output: str) -> dict[str, Comparison]:
    """Return the comparisons, by name, in the lines that `compare` of timing.hpp prints."""
    found: dict[str, list[tuple[float, float]]] = {}
    for line in output.splitlines():
        name, ours, reference = line.split()
        found.setdefault(name, []).append((float(ours), float(reference)))
    return {
        name: Comparison([a for a, _ in pairs], [b for _, b in pairs])
        for name, pairs in found.items()
    }


def show(name: str, comparison: Comparison, reference: str, limit: float) -> None:
    """Print a comparison; exit with an error if the median ratio is above the limit."""
    print(f"{name} {comparison.describe(reference)}")
    if comparison.ratio > limit:
        sys.exit(f"the median ratio is above {limit}")
