"""Variables of torch for ranks started by srun or mpirun, which set variables of other names.

Named torch_switchml_launch.py in the plugin, and switchml_launch.py beside sitecustomize.py. Runs
under Python 3.6 and newer, and imports nothing of this package.
"""

import os
import re

# Rank of a task, number of tasks, and both within the node.
_OWN = tuple("{}_COMM_WORLD_" + name for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE"))
_MPIRUN = (
    *(tuple(name.format(vendor) for name in _OWN) for vendor in ("OMPI", "MV2")),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),  # MPICH and Intel MPI
    ("PMIX_RANK", "", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),  # PMIx has no size
)
_SRUN = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE")
NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
_NODES = ["SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"]
_TASKS = ("SLURM_STEP_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE")
_PSEUDO_STEPS = 0xFFFFFFF0  # first of SLURM's step numbers for scripts and shells


def missing(environ: "dict[str, str]") -> "dict[str, str]":
    """Return variables of torch that are not set, but that a launcher set under another name."""
    # In a job of SLURM, a rank of mpirun also has the variables of the script that calls mpirun, or
    # of the step with which mpirun starts its daemons. A task of srun may have mpirun's rank and
    # size, but not its local rank.
    is_task = _is_task(environ)
    needed = slice(3 if is_task else 2)
    names = next((one for one in _MPIRUN if {*environ, ""}.issuperset(one[needed])), None)
    if names:
        given = {name: environ.get(other, "") for name, other in zip(NAMES, names)}
        lists = _NODES[1:]
    elif is_task:
        given = {name: environ.get(other, "") for name, other in zip(NAMES, _SRUN)}
        given["LOCAL_WORLD_SIZE"] = tasks_of_node(environ)
        lists = _NODES
    else:
        return {}
    given = {name: value for name, value in given.items() if value.isdigit()}
    nodes = next((environ[name] for name in lists if environ.get(name)), "")
    if nodes:
        given["MASTER_ADDR"] = first_host(nodes)
    return {name: value for name, value in given.items() if not environ.get(name)}


def _is_task(environ: "dict[str, str]") -> bool:
    """Return whether this is a task of srun. A script of sbatch has the variables of task 0 too."""
    if "SLURM_PROCID" not in environ or "SLURM_NTASKS" not in environ:
        return False
    step = environ.get("SLURM_STEP_ID") or environ.get("SLURM_STEPID") or ""
    return int(step) < _PSEUDO_STEPS if step.isdigit() else "SLURM_JOB_ID" not in environ


def tasks_of_node(environ: "dict[str, str]") -> str:
    """Return the number of tasks on this node, from a list such as "2(x3),1"; empty if unknown."""
    for name in _TASKS:
        counts = []  # type: list[str]
        for part in environ.get(name, "").split(","):
            found = re.match(r"(\d+)(?:\(x(\d+)\))?$", part.strip())
            if found:
                counts += [found.group(1)] * min(int(found.group(2) or 1), 1 << 16)
        node = environ.get("SLURM_NODEID", "")
        if len(set(counts)) == 1:
            return counts[0]
        if node.isdigit() and int(node) < len(counts):
            return counts[int(node)]
    return ""


def first_host(nodes: str) -> str:
    """Return the first host of a node list such as "rack[1-2]node[01,05-07],login"."""
    first = re.match(r"(?:[^,\[]|\[[^\]]*\])*", nodes)
    return re.sub(r"\[([^\],-]*)[^\]]*\]", r"\1", first.group() if first else "")


def activate() -> None:
    """Set the missing variables in this process."""
    os.environ.update(missing(dict(os.environ)))
