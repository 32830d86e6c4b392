"""Launchers that have started this command, such as torchrun and mpirun."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_OVERRIDDEN = (
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
)  # fmt: skip
# The number of processes that were started together. SLURM_NTASKS is there in a batch script too.
_SIZES = {
    "OMPI_COMM_WORLD_SIZE": "mpirun",
    "MV2_COMM_WORLD_SIZE": "mpirun",
    "PMI_SIZE": "mpirun",
    "SLURM_STEP_NUM_TASKS": "srun",
}
_ADVICE = (
    "for ranks that another launcher starts, or of several machines, install the plugin, a graft "
    "or a patched torch, and start the script itself"
)


def warnings(environ: Mapping[str, str], workers: int) -> Iterator[str]:
    """Lines on ranks of a launcher, which those that are started here do not sum with.

    Args:
        environ: environment of this command.
        workers: ranks to start; 0 where the command starts its own, with the launcher's variables.
    """
    if not workers:
        return
    names = [name for name in _OVERRIDDEN if name in environ]
    started = next(
        (f"{program} has started {environ[name]} of this command"
         for name, program in _SIZES.items() if _several(environ.get(name, ""))), "",
    )  # fmt: skip
    if names:
        yield f"warning: {_listed(names)} of another launcher: overridden for the ranks"
    if started:
        yield f"warning: {started}"
    if names or started:
        ranks = "1 rank, which sums with nobody" if workers == 1 else f"{workers} ranks of its own"
        yield f"  each run starts {ranks}; {_ADVICE}"


def _several(size: str) -> bool:
    return size.isdigit() and int(size) > 1


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
