"""Ranks of Open MPI's mpirun and MPICH's mpiexec, with one switchml.cfg for all of them."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from support import cluster
from support.hosts import INTERFACE
from support.serving import serving
from support.slurm import Slurm
from support.torch import Plugin
from support.waiting import captured

from patchgen.extras.lab.simulator import compose_simulated

pytestmark = pytest.mark.cluster


def test_mpirun_in_a_job_of_slurm(
    nodes: Slurm, plugin: Plugin, cache: Path, tmp_path: Path
) -> None:
    """The first node's name is SLURM's, all else is Open MPI's."""
    config, script = tmp_path / "switchml.cfg", tmp_path / "script"
    first = nodes.hosts[0]
    env = cluster.environment(
        SWITCHML_CONFIG=str(config), SWITCHML_FOR_GLOO="1", GLOO_SOCKET_IFNAME=INTERFACE,
        MASTER_PORT="29500", OMPI_MCA_btl="^openib", **cluster.MPI_ROOT,
    )  # fmt: skip
    command = ["mpirun", "-np", "4", plugin.python, cluster.PROGRAM, tmp_path]
    script.write_text(f"#!/bin/sh\n{shlex.join(map(str, command))}\n")
    batch = ["sbatch", "--wait", "--time=5", "-N2", "--ntasks-per-node=2", "--output=output"]
    with serving(cache, tmp_path / "counters", 4, *first.command(), host=first.address) as switch:
        config.write_text(compose_simulated(aggregator=switch.address))
        done = nodes.run(*batch, script, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr + (tmp_path / "output").read_text()
    found = cluster.read_records(tmp_path, 4)
    cluster.check_trained(found, 2)
    assert [one["host"] for one in found] == ["hx0", "hx0", "hx1", "hx1"]


def test_mpiexec_of_mpich(
    plugin: Plugin, cache: Path, two_hosts: list[cluster.Host], tmp_path: Path
) -> None:
    """The rank, the size and the same on the host are what Hydra says."""
    config, (first, second) = tmp_path / "switchml.cfg", two_hosts
    env = cluster.environment(
        SWITCHML_CONFIG=str(config), SWITCHML_FOR_GLOO="1", GLOO_SOCKET_IFNAME=INTERFACE,
        MASTER_ADDR=first.address, MASTER_PORT="29500",
    )  # fmt: skip
    agent = cluster.make_agent(second, tmp_path)
    command = ["mpiexec.hydra", "-n", "4", "-ppn", "2", "-hosts", f"{first.name},{second.name}"]
    command += ["-launcher", "rsh", "-launcher-exec", str(agent), "-iface", INTERFACE]
    with serving(cache, tmp_path / "counters", 4, *first.command(), host=first.address) as switch:
        config.write_text(compose_simulated(aggregator=switch.address))
        done = captured(
            first.command(*command, plugin.python, cluster.PROGRAM, tmp_path), cwd=tmp_path, env=env
        )
    assert done.returncode == 0, done.stderr
    found = cluster.read_records(tmp_path, 4)
    cluster.check_trained(found, 2)
    assert [one["host"] for one in found] == ["zeus", "zeus", "apollo", "apollo"]
