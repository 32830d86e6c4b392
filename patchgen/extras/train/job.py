"""Job of ranks, as the user asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchgen.core.torch import GRAFT
from patchgen.errors import OptionsError
from patchgen.extras.train.ways import AUTO, STOCK

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchgen.extras.lab.lab import Faults
    from patchgen.options import Options

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
    restarts: int = 0
    """Times that all ranks are started again after one has failed."""
    way: str = AUTO
    """Choice among `ways.WAYS`."""
    options: Options | None = None
    """Options of what has to be built. None: with the simulator, installed in the cache."""
    graft: str | None = None
    """Path of a graft to load, instead of one that is installed."""
    configs: Sequence[str] = ()
    """Absolute paths of configurations: one for each rank, or one for all."""
    require: bool = False
    """True: a group that does not delegate raises, and the job fails where none was to."""
    lab: bool | None = None
    """True: the ranks are around a software switch. None: where a library with DPDK was named, and
    no configuration."""
    faults: Faults | None = None
    """Faults injected by the software switch."""
    stdin: int | None = None
    """Descriptor that the first rank reads; None: it reads nothing."""
    notes: Sequence[str] = ()
    """Lines for the user on the command line."""

    def __post_init__(self) -> None:
        if self.graft is not None and self.way not in {AUTO, GRAFT}:
            raise OptionsError(f"--graft is not for --way {self.way}; drop one of them")
        if self.require and self.way == STOCK:
            raise OptionsError(f"--require: --way {STOCK} is without SwitchML; drop one of them")
        if self.workers > MOST_WORKERS:
            raise OptionsError(
                f"--workers {self.workers}: SwitchML's fixed point is for {MOST_WORKERS} ranks at "
                "most, since it may overflow with more; take fewer"
            )
        if len(self.configs) > 1 and self.workers not in (0, len(self.configs)):
            raise OptionsError(
                f"{len(self.configs)} configurations for {self.workers} ranks; give one for each "
                "rank, or one for all, in which each fills in its own"
            )
