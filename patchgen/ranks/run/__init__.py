"""Runs a script on several ranks with SwitchML in their torch, and tells what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchgen.ranks.run.job import Interrupted, Job, Line, Rank, Result, Setup
from patchgen.ranks.run.starting import start
from patchgen.ranks.run.ways import prepare

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Interrupted", "Job", "Line", "Rank", "Result", "Setup", "prepare", "run", "start"]


def run(job: Job, output: Callable[[Line], None]) -> Result:
    """Prepares a job and runs it; see `prepare` and `start`."""
    return start(job, prepare(job), output)
