"""Training of the demo: starts the script on all ranks, and reads their measurements."""

from __future__ import annotations

import collections
import json
import logging
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import FileIO
from typing import TYPE_CHECKING, Any

import numpy as np

from patchgen.errors import FileError, ToolError, file_errors
from patchgen.extras.train.job import Job
from patchgen.extras.train.result_text import failures
from patchgen.extras.train.results import Result
from patchgen.extras.train.setup import Setup
from patchgen.extras.train.start import Line, run_job
from patchgen.system.progress import log_count

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]

_LOGGER = logging.getLogger(__name__)
_STEP = re.compile(rb"step (\d+) of (\d+):")
_SHOWN = 3  # last lines of a rank that failed
_LOG = "output.txt"


@dataclass(frozen=True)
class Training:
    """Result and measurements of a training."""

    result: Result
    seconds: float
    log: str
    """Path of the file with all output of the ranks."""
    losses: npt.NDArray[np.float64]
    """Loss of each step, the mean of all ranks."""
    accuracies: Sequence[float]
    """Share of the unseen images that were read right, by epoch."""
    weights: Sequence[Floats]
    """All weights of each rank at the end, flattened."""
    largest_gradient: float
    """Largest gradient of any rank, before the division by the number of ranks."""
    reach: float
    """Largest influence of one gradient on a final weight: learning rate / (1 - momentum)."""

    @property
    def calls(self) -> int:
        """Number of allreduces of a rank that SwitchML summed."""
        return min((report["calls"] for report in self._reports), default=0)

    @property
    def bytes(self) -> int:
        """Number of bytes of a rank that SwitchML summed."""
        return min((report["bytes"] for report in self._reports), default=0)

    @property
    def fallbacks(self) -> Mapping[str, int]:
        """Number of allreduces of a rank that were left to Gloo, by reason, if not 0."""
        found: dict[str, int] = {}
        for report in self._reports:
            for reason, count in report["fallbacks"].items():
                if count:
                    found[reason] = max(found.get(reason, 0), count)
        return found

    @property
    def _reports(self) -> Sequence[Mapping[str, Any]]:
        reports = [rank.report for rank in self.result.ranks]
        return [report for report in reports if report is not None]


class Watch:
    """Writes the output of the ranks to a log, logs progress, and keeps each rank's last lines."""

    def __init__(self, log: FileIO) -> None:
        self._log = log
        self.last: dict[int | None, collections.deque[str]] = collections.defaultdict(
            lambda: collections.deque(maxlen=_SHOWN)
        )

    def __call__(self, line: Line) -> None:
        """Write a line to the log."""
        try:
            self._log.write((b"" if line.rank is None else b"[%d] " % line.rank) + line.text)
        except OSError as error:  # has no file name
            raise FileError(f"{os.fsdecode(self._log.name)}: {error.strerror}") from error
        found = _STEP.match(line.text)
        if found and line.rank == 0 and not line.error:
            log_count(_LOGGER, int(found[1]), int(found[2]))
        text = line.text.decode(errors="replace").strip()
        if line.error and text:
            self.last[line.rank].append(text)


def run_training(job: Job, setup: Setup, name: str, directory: str) -> Training:
    """Run a training named `name` in messages, whose script writes to `directory`.

    Raises:
        ToolError: a rank failed.
        FileError: a file could not be written, or is missing.
    """
    log = os.path.join(directory, _LOG)
    begun = time.monotonic()
    with file_errors():
        os.makedirs(directory, exist_ok=True)
        with open(log, "wb", buffering=0) as file:
            watch = Watch(file)
            result = run_job(job, setup, watch)
    seconds = time.monotonic() - begun
    for rank, failure in zip(result.failed, failures(result)):
        raise ToolError("\n".join([
            f"the training with {name} failed: {failure}; its last lines:",
            *(f"  {line}" for line in watch.last[rank]),
            f"all that was written is in {log}",
        ]))  # fmt: skip
    return read_training(directory, job.workers, result, seconds, log)


def read_training(directory: str, ranks: int, result: Result, seconds: float, log: str) -> Training:
    """Read the measurements of the ranks.

    Raises:
        FileError: a file is missing.
    """
    measured, weights = [], []
    with file_errors():
        for rank in range(ranks):
            with open(os.path.join(directory, f"{rank}.json"), encoding="ascii") as file:
                measured.append(json.load(file))
            with open(os.path.join(directory, f"{rank}.weights"), "rb") as file:
                weights.append(np.fromfile(file, dtype=np.float32))
    one = measured[0]
    return Training(
        result=result,
        seconds=seconds,
        log=log,
        losses=np.mean([each["losses"] for each in measured], axis=0),
        accuracies=one["accuracies"],
        weights=weights,
        largest_gradient=max(each["largest_gradient"] for each in measured),
        reach=one["learning_rate"] / (1 - one["momentum"]),
    )
