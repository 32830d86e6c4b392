"""Start of ranks on this machine: the only one, for whoever wants some."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from patchgen.system.ports import free_port
from patchgen.system.process import CompletedRun, Program, side_by_side

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from threading import Event

_LOOPBACK = "127.0.0.1"
ALONE = {"GLOO_SOCKET_IFNAME": "lo"}
"""Variables of ranks that find each other on this machine; its name need not resolve."""


@dataclass(frozen=True)
class RankJob:
    """Command that runs once for each rank, side by side."""

    command: Sequence[str]
    environs: Sequence[Mapping[str, str]]
    """Environment of each rank, whole."""
    directories: Sequence[str]
    """Directory of each rank."""
    stdin: Sequence[bytes] = ()
    """Bytes that each rank reads; empty: nothing."""
    reads: int | None = None
    """Descriptor that the first rank reads instead."""
    limit: float | None = None
    """Seconds that they may take; None: any time."""
    patience: float = 0.0
    """Seconds that the others go on after one has failed."""
    grace: float = 0.0
    """Seconds that they have to end once they are told to, before they are killed."""


@dataclass(frozen=True)
class RankEnds:
    """Ends of the ranks of a job."""

    runs: Sequence[CompletedRun]
    """End of each rank, with what it wrote unless somebody else got it."""

    @property
    def failed(self) -> dict[int, int]:
        """Return codes of the ranks that failed by themselves, the first first."""
        failed = [number for number, run in enumerate(self.runs) if run.code and not run.killed]
        return {number: self.runs[number].code for number in
                sorted(failed, key=lambda number: self.runs[number].ended)}  # fmt: skip


def start_ranks(
    job: RankJob,
    output: Callable[[int, str, bytes], object] | None = None,
    stop: Event | None = None,
) -> RankEnds:
    """Starts the ranks of a job, and waits for their end. None of their processes is left.

    Args:
        job: the job.
        output: gets the number of a rank, OUT or ERR, and a line of it with its end.
        stop: ends them once it is set.

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
    """Variables that tell each rank its number and where rank 0 listens, as those of torchrun."""
    size, port = str(workers), str(free_port())
    shared = {"WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}
    shared.update(MASTER_ADDR=_LOOPBACK, MASTER_PORT=port)
    return [{**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(workers)]
