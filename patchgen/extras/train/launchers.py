"""Launchers that have started this command, such as torchrun and mpirun."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchgen.core.verify.payload import launch

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
    "for ranks that another launcher starts, install the plugin, a graft or a patched torch, and "
    "start the script itself"
)

_LOWEST_PORT, _PORTS = 29_400, 3_000  # below those that the kernel gives to anybody


@dataclass(frozen=True)
class Task:
    """Task of srun or mpirun that this command is."""

    launcher: str
    rank: int
    size: int
    local: int
    """Tasks on this host."""
    endpoint: str
    """Address of the first host, with a port of the job; empty where the launcher tells none."""
    name: str
    """Name of this host; empty where the launcher tells none."""
    job: str


def find_task(environ: Mapping[str, str]) -> Task | None:
    """Finds out which task of srun or mpirun this command is; None where it is none of several."""
    if any(name in environ for name in launch.NAMES):
        return None  # another launcher, which this command overrides
    found = launch.missing(dict(environ))
    size = int(found.get("WORLD_SIZE", "1"))
    if size == 1 or "RANK" not in found:
        return None
    under_mpirun = "OMPI_COMM_WORLD_SIZE" in environ
    job, seed = _read_namespace(environ) if under_mpirun else _read_step(environ)
    address = environ.get("MASTER_ADDR") or found.get("MASTER_ADDR", "")
    port = environ.get("MASTER_PORT") or str(_LOWEST_PORT + seed % _PORTS)
    return Task(
        launcher="mpirun" if under_mpirun else "srun",
        rank=int(found["RANK"]),
        size=size,
        local=int(found.get("LOCAL_WORLD_SIZE", "1")),
        endpoint=f"{address}:{port}" if address else "",
        name=environ.get("SLURMD_NODENAME", ""),
        job=job,
    )


def _read_namespace(environ: Mapping[str, str]) -> tuple[str, int]:
    """Name of a job of mpirun, and a number that other jobs seldom have."""
    name = environ.get("PMIX_NAMESPACE", "")
    return name, int(name) if name.isdigit() else 0


def _read_step(environ: Mapping[str, str]) -> tuple[str, int]:
    """Name of a step of SLURM, and a number that other steps seldom have."""
    job = environ.get("SLURM_JOB_ID", "")
    step = environ.get("SLURM_STEP_ID") or environ.get("SLURM_STEPID") or "0"
    if not job:
        return "", 0
    return f"{job}.{step}", int(job) * 16 + int(step) if f"{job}{step}".isdigit() else 0


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
