"""Result of a job, read from the files that its ranks wrote."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from patchgen.errors import CheckError
from patchgen.extras.train.job import Job
from patchgen.extras.train.payload import rank_hook
from patchgen.extras.train.setup import Setup

JOB = "job.json"
"""Name of the file, in the directory of the job, that the ranks read their part from."""


@dataclass(frozen=True)
class RankReport:
    """Report of a rank."""

    rank: int
    world: int
    """World size of the default process group."""
    backend: str
    """Backend of that group, as the script sees it."""
    group: str
    """State of the group after its ranks agreed; empty if the group is not SwitchML's."""
    report: Mapping[str, Any] | None
    """Report of `torch.distributed.switchml`; None if the rank has no SwitchML."""
    final: bool
    """True if written at the end of the rank, else when it last made or destroyed a group."""
    reason: str = ""
    """Reason why the group stays with Gloo; empty if it delegates, or is not SwitchML's."""

    @property
    def delegated(self) -> tuple[int, int]:
        """Number of allreduces that SwitchML summed with other ranks, and of their bytes."""
        if self.report is None or self.world == 1:
            return 0, 0
        return self.report["calls"], self.report["bytes"]


@dataclass(frozen=True)
class Result:
    """Result of a job."""

    setup: Setup
    code: int
    """0, or the exit code of the first rank that failed, or 6.

    For a signal it is 128 and its number. It is 6 if SwitchML was required but not used.
    """
    failed: Mapping[int, int]
    """Exit codes of the ranks that failed by themselves, by rank; negative for a signal."""
    ranks: Sequence[RankReport]
    """Reports of the ranks that made a process group, by rank."""
    elsewhere: Sequence[str] = ()
    """Directories of other torches that were imported."""
    counters: Mapping[str, Any] | None = None
    """Counters of the software switch; None without that switch."""
    makers: Sequence[str] = ()
    """Modules other than torch's own that made process groups."""
    unhooked: Sequence[str] = ()
    """Names of the ranks whose program did not load the hook."""
    lost: str = ""
    """Directory of the reports if it was removed while the ranks ran, else empty."""

    @property
    def delegated(self) -> bool:
        """True if SwitchML summed any allreduce."""
        return any(rank.delegated[0] for rank in self.ranks)

    @property
    def silent(self) -> bool:
        """True if no rank reported anything."""
        reported = self.ranks or self.makers or self.elsewhere
        return bool(self.lost or (self.unhooked and not reported))

    @property
    def missed(self) -> bool:
        """True if a group was or may have been made without SwitchML, or nothing was delegated."""
        if self.ranks:
            used = self.delegated
            return any(rank.world > 1 and not (rank.group and used) for rank in self.ranks)
        return bool(self.makers or self.elsewhere or self.unhooked)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C. The ranks have ended."""

    def __init__(self, result: Result) -> None:
        super().__init__()
        self.result = result


def collect_result(  # noqa: PLR0913  # each is a part of it
    job: Job,
    setup: Setup,
    directory: str,
    *,
    code: int,
    failed: Mapping[int, int],
    counters: Mapping[str, Any] | None,
) -> Result:
    """Collect the result from the files that the ranks wrote to the directory of the job."""
    reports = os.path.join(directory, rank_hook.REPORTS)
    if not (os.path.exists(os.path.join(directory, JOB)) and os.path.exists(reports)):
        return Result(setup, code, failed, (), counters=counters, lost=directory)
    ranks, elsewhere, makers, marks = [], set(), set(), []
    for data in _read_files(reports):
        if "root" in data:
            elsewhere.add(data["root"])
        elif "maker" in data:
            makers.add(data["maker"])
        elif "hook" in data:
            marks.append(data)
        else:
            ranks.append(_read_rank(data))
    if job.restarts:  # only the last report of a restarted rank counts
        ranks = [*{rank.rank: rank for rank in ranks}.values()]
    ranks.sort(key=lambda rank: rank.rank)
    hooked = {mark["hook"] for mark in marks if _counts(mark, job, code)}
    if job.workers:
        unhooked = [f"rank {one}" for one in range(job.workers) if str(one) not in hooked]
    else:
        unhooked = [] if hooked else ["the ranks"]
    result = Result(
        setup, code, failed, ranks, sorted(elsewhere), counters, sorted(makers), unhooked
    )  # fmt: skip
    if job.require and not code and result.missed:
        return replace(result, code=CheckError.exit_code)
    return result


def _counts(mark: Mapping[str, Any], job: Job, code: int) -> bool:
    """Return whether the mark of a process shows that the program of a rank loaded the hook.

    Launchers leave marks too. A launcher that executes another program in its place does not mark
    its end; any other launcher has started programs.
    """
    launches = not job.workers or job.command[0] != job.python
    return (mark["ended"] or code != 0) and not (launches and mark["started"])


def _read_files(directory: str) -> Iterator[dict[str, Any]]:
    """Yield the reports, the newest last."""
    paths = [entry.path for entry in os.scandir(directory) if entry.name.endswith(".json")]
    for path in sorted(paths, key=lambda path: (os.stat(path).st_mtime_ns, path)):
        with open(path, encoding="ascii") as file:
            yield json.load(file)


def _read_rank(data: Mapping[str, Any]) -> RankReport:
    outcome = data["outcomes"][0] if data["outcomes"] else {"group": "", "reason": ""}
    return RankReport(
        rank=data["rank"],
        world=data["world"],
        backend=data["backend"],
        group=outcome["group"],
        reason=outcome["reason"],
        report=data["report"],
        final=data["final"],
    )
