"""Job of ranks, from its setup to its result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from patchgen.core.torch import GRAFT
from patchgen.errors import OptionsError
from patchgen.extras.train.configs import NO_CONFIGS, Configs
from patchgen.extras.train.hosts.rendezvous import Elastic
from patchgen.extras.train.ways import AUTO

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchgen.core.torch import Torch
    from patchgen.extras.lab.lab import Faults, Lab, RemoteLab
    from patchgen.extras.train.access import Access
    from patchgen.options import Options

DEFAULT_WORKERS = 2
MOST_WORKERS = 255
"""Most ranks of a job. With more, the fixed point of the client library may overflow."""


@dataclass(frozen=True)
class Host:
    """Host of a job."""

    name: str
    address: str
    """Address by which the other hosts know it."""
    ranks: int
    """Ranks that it starts."""


@dataclass(frozen=True)
class Hosts:
    """Hosts of a job, by number."""

    all: tuple[Host, ...]
    node: int
    """Number of this host."""
    port: int
    """Port of the first host for torch's launcher."""

    @property
    def here(self) -> Host:
        """This host."""
        return self.all[self.node]

    @property
    def size(self) -> int:
        """Ranks of all hosts."""
        return sum(host.ranks for host in self.all)

    @property
    def offset(self) -> int:
        """Ranks of the hosts before this one."""
        return sum(host.ranks for host in self.all[: self.node])


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
    """Ranks of all hosts. 0: the command is started once, and starts its ranks itself."""
    hosts: Hosts | None = None
    """Hosts that start ranks; None: this machine starts all."""
    elastic: Elastic = field(default_factory=Elastic)
    """Choices for torch's elastic launcher."""
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
            given = f"{self.workers} ranks" if self.hosts else f"--workers {self.workers}"
            raise OptionsError(
                f"{given}: SwitchML's fixed point is for {MOST_WORKERS} ranks at "
                "most, since it may overflow with more; take fewer"
            )
        if self.hosts is not None and self.lab and any(h.ranks > 1 for h in self.hosts.all[1:]):
            raise OptionsError(
                "--lab: the interface of a host is for one rank; give --nproc-per-node 1 on all "
                "hosts but the first"
            )
        self.configs.check(self.workers)

    @property
    def local(self) -> int:
        """Ranks that this machine starts."""
        return self.workers if self.hosts is None else self.hosts.here.ranks


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
    client: str = ""
    """Mark of the client library, which tells its mends; empty where it has none."""
    protocol: str = ""
    """Version of what ranks tell each other."""
    switch: str | None = None
    """Program of the software switch that the ranks are around; None: there is none."""
    aggregator: str = ""
    """HOST:PORT of a simulated switch for several hosts; empty: the process of rank 0 is it."""
    lab: Lab | RemoteLab | None = None
    """Software switch for several hosts, which runs; None: there is none."""
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
    places: Mapping[int, str] = field(default_factory=dict)
    """Names of the ranks' hosts; empty where there is one."""

    @property
    def delegated(self) -> bool:
        """True where SwitchML has summed any allreduce."""
        return any(rank.delegated[0] for rank in self.ranks)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, after which the ranks have ended."""

    def __init__(self, result: Result) -> None:
        super().__init__()
        self.result = result
