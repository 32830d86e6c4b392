"""Starts ranks on this machine, for all commands that need ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from patchgen.system.ports import free_port
from patchgen.system.process import CompletedRun, Program, side_by_side

if TYPE_CHECKING:
    from threading import Event

_LOOPBACK = "127.0.0.1"
ALONE = {"GLOO_SOCKET_IFNAME": "lo"}
"""Variables for ranks on one machine, whose host name need not resolve."""


@dataclass(frozen=True)
class RankJob:
    """Command to run once for each rank, in parallel."""

    command: Sequence[str]
    environs: Sequence[Mapping[str, str]]
    """Complete environment of each rank."""
    directories: Sequence[str]
    """Working directory of each rank."""
    stdin: Sequence[bytes] = ()
    """Input of each rank; empty: none."""
    reads: int | None = None
    """File descriptor that the first rank reads instead of its `stdin`."""
    limit: float | None = None
    """Seconds for all ranks together; None: no limit."""
    patience: float = 0.0
    """Seconds that the other ranks may go on after one has failed."""
    grace: float = 0.0
    """Seconds from SIGTERM to SIGKILL."""


@dataclass(frozen=True)
class RankEnds:
    """How the ranks of a job ended."""

    runs: Sequence[CompletedRun]
    """End of each rank; with its output unless a callback received that."""

    @property
    def failed(self) -> dict[int, int]:
        """Return codes of ranks that failed by themselves, the earliest first."""
        failed = [number for number, run in enumerate(self.runs) if run.code and not run.killed]
        return {number: self.runs[number].code for number in
                sorted(failed, key=lambda number: self.runs[number].ended)}  # fmt: skip


def start_ranks(
    job: RankJob,
    output: Callable[[int, str, bytes], object] | None = None,
    stop: Event | None = None,
) -> RankEnds:
    """Run the ranks of a job to their end; leave none of their processes behind.

    Args:
        job: the job.
        output: called with the number of a rank, OUT or ERR, and each line with its end.
        stop: ends the ranks once it is set.

    Raises:
        ToolError: a rank cannot be started.
    """
    lines = job.stdin or [b""] * len(job.environs)
    programs = [
        Program(job.command, directory, environ, line, grace=job.grace)
        for directory, environ, line in zip(job.directories, job.environs, lines)
    ]
    programs[0] = replace(programs[0], reads=job.reads)
    runs = side_by_side(
        programs, limit=job.limit, patience=job.patience, output=output, stop=stop
    )  # fmt: skip
    return RankEnds(runs)


def number_ranks(workers: int) -> list[dict[str, str]]:
    """Return torchrun's variables for each rank: its number, and the address of rank 0."""
    size, port = str(workers), str(free_port())
    shared = {"WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}
    shared.update(MASTER_ADDR=_LOOPBACK, MASTER_PORT=port)
    return [{**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(workers)]
