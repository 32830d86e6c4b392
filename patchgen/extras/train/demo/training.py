"""Training: the script on all ranks, and what they measured."""

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
    """Path of the file with all that the ranks wrote."""
    losses: npt.NDArray[np.float64]
    """Losses by step, each the mean of the ranks."""
    accuracies: Sequence[float]
    """Shares of the unseen images that were read right, by epoch."""
    weights: Sequence[Floats]
    """Weights that each rank has learnt, in a row."""
    largest_gradient: float
    """Largest gradient of any rank, before the division by the number of ranks."""
    reach: float
    """Sensitivity of a final weight to one gradient."""

    @property
    def calls(self) -> int:
        """Allreduces of each rank that SwitchML has summed."""
        return min((report["calls"] for report in self._reports), default=0)

    @property
    def bytes(self) -> int:
        """Bytes of each rank that SwitchML has summed."""
        return min((report["bytes"] for report in self._reports), default=0)

    @property
    def fallbacks(self) -> Mapping[str, int]:
        """Allreduces of each rank that were left to Gloo, by reason; without those that are 0."""
        found: dict[str, int] = {}
        for report in self._reports:
            for reason, count in report["fallbacks"].items():
                if count:
                    found[reason] = max(found.get(reason, 0), count)
        return found

    @property
    def _reports(self) -> Sequence[Mapping[str, Any]]:
        """Reports of the ranks that have SwitchML."""
        reports = [rank.report for rank in self.result.ranks]
        return [report for report in reports if report is not None]


class Watch:
    """Log, progress and last lines of the ranks."""

    def __init__(self, log: FileIO) -> None:
        self._log = log
        self.last: dict[int | None, collections.deque[str]] = collections.defaultdict(
            lambda: collections.deque(maxlen=_SHOWN)
        )

    def __call__(self, line: Line) -> None:
        """Writes a line to the log."""
        try:
            self._log.write((b"" if line.rank is None else b"[%d] " % line.rank) + line.text)
        except OSError as error:  # which does not know the file's name
            raise FileError(f"{os.fsdecode(self._log.name)}: {error.strerror}") from error
        found = _STEP.match(line.text)
        if found and line.rank == 0 and not line.error:
            log_count(_LOGGER, int(found[1]), int(found[2]))
        text = line.text.decode(errors="replace").strip()
        if line.error and text:
            self.last[line.rank].append(text)


def run_training(job: Job, setup: Setup, name: str, directory: str) -> Training:
    """Runs a training.

    Args:
        job: the script, which writes what it measured into `directory`.
        setup: setup of its ranks.
        name: name of the training, for messages.
        directory: directory of the results; made where it is not there.

    Raises:
        ToolError: a rank failed.
        FileError: a file could not be written, or is not there.
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
    """Reads what the ranks measured.

    Raises:
        FileError: a file is not there.
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
