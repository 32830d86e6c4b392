"""What is to be run, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from patchgen.ranks.way import AUTO

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchgen.options import Options
    from patchgen.ranks.lab import Faults
    from patchgen.torch import Torch

DEFAULT_WORKERS = 2
MOST_WORKERS = 255
"""Ranks of a job. With more, the fixed point of the client library may overflow."""


@dataclass(frozen=True)
class Job:
    """A command that every rank runs."""

    command: Sequence[str]
    """The program and its arguments."""
    python: str
    """The interpreter whose torch the ranks import, as an absolute path."""
    cache: str
    """Where what is built is kept, and found by the next run."""
    cwd: str
    environ: Mapping[str, str]
    """Of the ranks, which get some variables more."""
    workers: int = DEFAULT_WORKERS
    """Ranks to start. 0: the command is started once, and starts its ranks itself."""
    way: str = AUTO
    """One of `ranks.way.WAYS`."""
    options: Options | None = None
    """For what has to be built. None: against the simulator, which is installed in the cache."""
    graft: str | None = None
    """A graft to load, instead of one that is installed."""
    configs: Sequence[str] = ()
    """The switchml.cfg of each rank, or one in which each rank's numbers are filled in."""
    require: bool = False
    """Whether making a group that does not delegate raises."""
    lab: bool | None = None
    """Whether the ranks are around a software switch. None: where a library with DPDK was named,
    and no configuration."""
    faults: Faults | None = None
    """Of that switch."""


@dataclass(frozen=True)
class Setup:
    """How SwitchML comes into the ranks."""

    torch: Torch
    way: str
    """Likewise, but not auto."""
    why: str
    """In a line."""
    simulated: bool = False
    """Whether the switch is the simulator."""
    flags: str = ""
    """Of the client library, separated by spaces."""
    switch: str | None = None
    """The program of the software switch that the ranks are around; None: there is none."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """What of the ranks' environment differs from the job's."""
    graft: str | None = None
    """The graft to load that is not installed."""
    notes: Sequence[str] = ()
    """What the user should know."""


@dataclass(frozen=True)
class Line:
    """A line that a rank wrote."""

    rank: int | None
    """None: it was not written by a rank."""
    error: bool
    """Whether it was on stderr."""
    text: bytes
    """With its line end."""


@dataclass(frozen=True)
class Rank:
    """What a rank said of itself."""

    rank: int
    world: int
    """Ranks of the default process group."""
    backend: str
    """Of that group, as the script sees it."""
    group: str
    """What the ranks agreed on when it was made; empty where SwitchML was not asked."""
    report: Mapping[str, Any] | None
    """As `torch.distributed.switchml.report()`; None where SwitchML has no part."""
    final: bool
    """Whether it is of the end; else of the last time that a group was made or destroyed."""
    reason: str = ""
    """Reason why that group stays with Gloo; empty where it delegates, or is not SwitchML's."""

    @property
    def delegated(self) -> tuple[int, int]:
        """The allreduces that SwitchML has summed with other ranks, and their bytes."""
        if self.report is None or self.world == 1:
            return 0, 0
        return self.report["calls"], self.report["bytes"]


@dataclass(frozen=True)
class Result:
    """What came of a job."""

    setup: Setup
    code: int
    """0, else of the first rank that failed: its exit code, or 128 and the number of its signal."""
    failed: Mapping[int, int]
    """Exit code by rank, of those that failed by themselves; negative for a signal."""
    ranks: Sequence[Rank]
    """That made a process group; in their order."""
    elsewhere: Sequence[str] = ()
    """Directories of other torches that were imported."""
    counters: Mapping[str, Any] | None = None
    """Of the software switch; None where there was none."""
    makers: Sequence[str] = ()
    """Modules other than torch's own that made process groups."""

    @property
    def delegated(self) -> bool:
        """True where SwitchML has summed any allreduce."""
        return any(rank.delegated[0] for rank in self.ranks)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, after which the ranks have ended."""

    def __init__(self, result: Result) -> None:
        super().__init__()
        self.result = result
