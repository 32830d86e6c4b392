"""Job of ranks, from its setup to its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from patchgen.errors import OptionsError
from patchgen.ranks.configs import NO_CONFIGS, Configs
from patchgen.ranks.ways import AUTO
from patchgen.torch import GRAFT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchgen.options import Options
    from patchgen.ranks.access import Access
    from patchgen.ranks.lab import Faults
    from patchgen.torch import Torch

DEFAULT_WORKERS = 2
MOST_WORKERS = 255
"""Most ranks of a job. With more, the fixed point of the client library may overflow."""


@dataclass(frozen=True)
class Job:
    """A command that every rank runs.

    Raises:
        OptionsError: some of the values do not fit each other.
    """

    command: Sequence[str]
    """Program with its arguments."""
    python: str
    """Absolute path of the interpreter whose torch the ranks import."""
    cache: str
    """Directory of what is built, for the next run."""
    cwd: str
    environ: Mapping[str, str]
    """Environment of the ranks, which get some more variables."""
    workers: int = DEFAULT_WORKERS
    """Ranks to start. 0: the command is started once, and starts its ranks itself."""
    way: str = AUTO
    """Choice among `ways.WAYS`."""
    options: Options | None = None
    """Options of what has to be built. None: with the simulator, installed in the cache."""
    graft: str | None = None
    """Path of a graft to load, instead of one that is installed."""
    configs: Configs = NO_CONFIGS
    """Configurations that the user named."""
    require: bool = False
    """True: a group that does not delegate raises."""
    lab: bool | None = None
    """True: the ranks are around a software switch. None: where a library with DPDK was named, and
    no configuration."""
    faults: Faults | None = None
    """Faults injected by the software switch."""
    notes: Sequence[str] = ()
    """Lines for the user on the command line."""

    def __post_init__(self) -> None:
        if self.graft is not None and self.way not in {AUTO, GRAFT}:
            raise OptionsError(f"--graft is not for --way {self.way}; drop one of them")
        if self.workers > MOST_WORKERS:
            raise OptionsError(
                f"--workers {self.workers}: SwitchML's fixed point is for {MOST_WORKERS} ranks at "
                "most, since it may overflow with more; take fewer"
            )
        self.configs.check(self.workers)


@dataclass(frozen=True)
class Setup:
    """Setup of the ranks: their torch, how SwitchML comes into it, and the switch."""

    torch: Torch
    way: str
    """Name of the way: of `ways.WAYS`, but not auto."""
    access: Access
    simulated: bool = False
    """True where the switch is the simulator."""
    flags: str = ""
    """Flags of the client library, separated by spaces."""
    switch: str | None = None
    """Program of the software switch that the ranks are around; None: there is none."""
    notes: Sequence[str] = ()
    """Lines for the user."""


@dataclass(frozen=True)
class Line:
    """Line that a rank wrote."""

    rank: int | None
    """Number of the rank; None where another program wrote it."""
    error: bool
    """True where it was on stderr."""
    text: bytes
    """Line with its end."""


@dataclass(frozen=True)
class Rank:
    """Report of a rank."""

    rank: int
    world: int
    """World size of the default process group."""
    backend: str
    """Backend of that group, as the script sees it."""
    group: str
    """Agreement of the ranks when it was made; empty where SwitchML was not asked."""
    report: Mapping[str, Any] | None
    """Report of `torch.distributed.switchml`; None where SwitchML has no part."""
    final: bool
    """True: written at the rank's end; else when it last made or destroyed a group."""
    reason: str = ""
    """Reason why that group stays with Gloo; empty where it delegates, or is not SwitchML's."""

    @property
    def delegated(self) -> tuple[int, int]:
        """Allreduces that SwitchML has summed with other ranks, and their bytes."""
        if self.report is None or self.world == 1:
            return 0, 0
        return self.report["calls"], self.report["bytes"]


@dataclass(frozen=True)
class Result:
    """Result of a job."""

    setup: Setup
    code: int
    """0, or the exit code of the first rank that failed: for a signal, 128 and its number."""
    failed: Mapping[int, int]
    """Exit codes of the ranks that failed by themselves; negative for a signal."""
    ranks: Sequence[Rank]
    """Ranks that made a process group, in their order."""
    elsewhere: Sequence[str] = ()
    """Directories of other torches that were imported."""
    counters: Mapping[str, Any] | None = None
    """Counters of the software switch; None where there was none."""
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
