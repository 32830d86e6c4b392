"""Job of ranks, as the user asked for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from patchgen.core.torch import GRAFT
from patchgen.errors import OptionsError
from patchgen.extras.lab.lab import Faults
from patchgen.extras.train.variants import AUTO, STOCK
from patchgen.options import Options

DEFAULT_WORKERS = 2
MOST_WORKERS = 255
"""Largest number of ranks. With more, the fixed point of the client library may overflow."""


@dataclass(frozen=True)
class Job:
    """Command that every rank runs, and its options.

    Raises:
        OptionsError: some values contradict each other.
    """

    command: Sequence[str]
    python: str
    """Absolute path of the interpreter whose torch the ranks import."""
    cache: str
    cwd: str
    environ: Mapping[str, str]
    """Environment of the ranks, to which more variables are added."""
    workers: int = DEFAULT_WORKERS
    """Number of ranks; 0 starts the command once, and the command starts its ranks itself."""
    restarts: int = 0
    """Number of times to restart all ranks after one failed."""
    variant: str = AUTO
    """Choice of the user among `variants.VARIANTS`."""
    options: Options | None = None
    """Options of what has to be built; None takes the simulator."""
    graft: str | None = None
    """Path of a graft to load instead of an installed one."""
    configs: Sequence[str] = ()
    """Absolute paths of configurations: one for each rank, or one for all."""
    require: bool = False
    """Whether a group that does not delegate raises, and a job without delegation fails."""
    lab: bool | None = None
    """Whether the ranks use a software switch; None decides by `options` and `configs`."""
    faults: Faults | None = None
    stdin: int | None = None
    """File descriptor that the first rank reads; None for no input."""
    notes: Sequence[str] = ()
    """Notes to print before the ranks start."""

    def __post_init__(self) -> None:
        if self.graft is not None and self.variant not in {AUTO, GRAFT}:
            raise OptionsError(f"--graft is not for --variant {self.variant}; drop one of them")
        if self.require and self.variant == STOCK:
            raise OptionsError(
                f"--require: --variant {STOCK} is without SwitchML; drop one of them"
            )
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
