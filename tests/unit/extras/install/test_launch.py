"""The environment of srun and mpirun, as torch names it."""

from __future__ import annotations

import os

import pytest

from patchgen.extras.install.payload import launch

SRUN = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "3",
    "SLURM_NTASKS": "6",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_STEP_TASKS_PER_NODE": "2(x3)",
    "SLURM_JOB_NODELIST": "node[02,10]",
}
MPIRUN = {
    "OMPI_COMM_WORLD_RANK": "5",
    "OMPI_COMM_WORLD_SIZE": "8",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
}
HYDRA = {"PMI_RANK": "5", "PMI_SIZE": "8", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "4"}
MVAPICH = {name.replace("OMPI", "MV2"): value for name, value in MPIRUN.items()}
OF_SRUN = {
    "RANK": "3",
    "WORLD_SIZE": "6",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "node02",
}
BATCH = {**SRUN, "SLURM_STEP_ID": "4294967291"}  # a script of sbatch
# A task that starts the ranks of mpirun on the other nodes.
DAEMON = {**SRUN, "SLURM_NTASKS": "1", "SLURM_STEP_NODELIST": "node10"}
OF_MPIRUN = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, {}),
        (SRUN, OF_SRUN),
        (MPIRUN, OF_MPIRUN),
        ({**SRUN, "SLURM_STEP_NODELIST": "node10"}, {**OF_SRUN, "MASTER_ADDR": "node10"}),
        *(({**of_job, **MPIRUN}, {**OF_MPIRUN, "MASTER_ADDR": "node02"})
          for of_job in (SRUN, BATCH, DAEMON)),
        ({**SRUN, **OF_MPIRUN, "MASTER_ADDR": "here"}, {}),
        ({**MPIRUN, **OF_MPIRUN, "RANK": "1", "LOCAL_RANK": ""}, {"LOCAL_RANK": "1"}),
        (HYDRA, OF_MPIRUN),
        (MVAPICH, OF_MPIRUN),
        *(({**of_job, **HYDRA}, {**OF_MPIRUN, "MASTER_ADDR": "node02"})
          for of_job in (SRUN, BATCH, DAEMON)),
        ({**MPIRUN, "PMIX_RANK": "0"}, OF_MPIRUN),
        ({**SRUN, "PMI_RANK": "0", "PMI_SIZE": "1", "PMIX_RANK": "0"}, OF_SRUN),  # of its plugins
        ({"PMI_RANK": "0", "PMI_SIZE": "2"}, {"RANK": "0", "WORLD_SIZE": "2"}),
        ({"PMIX_RANK": "1", "OMPI_COMM_WORLD_RANK": "1"}, {"RANK": "1"}),  # PMIx has no size
        ({"OMPI_COMM_WORLD_RANK": "1", "PMI_SIZE": "2"}, {}),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "2"}, {"RANK": "0", "WORLD_SIZE": "2"}),
        ({"SLURM_PROCID": "0"}, {}),
    ],
)  # fmt: skip
def test_variables_that_a_launcher_names_otherwise(
    environ: dict[str, str], expected: dict[str, str]
) -> None:
    assert launch.missing(environ) == expected


@pytest.mark.parametrize("step", ["", "4294967291", "4294967290", "TBD"])
def test_a_script_of_sbatch_is_no_task(step: str) -> None:
    assert launch.missing({**SRUN, "SLURM_STEP_ID": step}) == {}


@pytest.mark.parametrize(
    ("lists", "node", "expected"),
    [
        ({"SLURM_NTASKS_PER_NODE": "4"}, None, "4"),
        ({"SLURM_NTASKS_PER_NODE": "2(x3)"}, None, "2"),
        ({"SLURM_TASKS_PER_NODE": "2(x2),1"}, "1", "2"),
        ({"SLURM_TASKS_PER_NODE": "2(x2),1"}, "2", "1"),
        ({"SLURM_TASKS_PER_NODE": "2(x2),1"}, None, ""),
        ({"SLURM_TASKS_PER_NODE": "2(x2),1"}, "9", ""),
        ({"SLURM_STEP_TASKS_PER_NODE": "1", "SLURM_NTASKS_PER_NODE": "4"}, "0", "1"),
        ({"SLURM_NTASKS_PER_NODE": "many", "SLURM_TASKS_PER_NODE": "3"}, "0", "3"),
        ({"SLURM_TASKS_PER_NODE": "1(x99999999999)"}, "0", "1"),
        ({}, "0", ""),
    ],
)
def test_tasks_of_a_node(lists: dict[str, str], node: str | None, expected: str) -> None:
    environ = {**lists, **({} if node is None else {"SLURM_NODEID": node})}
    assert launch.tasks_of_node(environ) == expected


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("zeus", "zeus"),
        ("zeus,apollo", "zeus"),
        ("node[02-10,15],login", "node02"),
        ("node[7,9]", "node7"),
        ("login,node[2-3]", "login"),
        ("rack[1-2]node[01,05]-ib,x", "rack1node01-ib"),
        ("gpu-a[001-128].site", "gpu-a001.site"),
    ],
)
def test_first_host_of_a_node_list(nodes: str, first: str) -> None:
    assert launch.first_host(nodes) == first


def test_what_is_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {**MPIRUN, "WORLD_SIZE": "2"})
    launch.activate()
    assert os.environ == {**MPIRUN, **OF_MPIRUN, "WORLD_SIZE": "2"}
