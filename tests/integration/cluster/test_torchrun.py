"""Ranks that two agents of torchrun start on two hosts, with one switchml.cfg for all of them."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from support import cluster
from support.serving import serving
from support.torch import Plugin
from support.waiting import ENOUGH

from patchgen.extras.lab.simulator import compose_simulated

pytestmark = pytest.mark.cluster

_APART = 3.0  # seconds between the starts of the agents


@pytest.mark.parametrize("reverse", [False, True], ids=["in-order", "reverse"])
@pytest.mark.parametrize("rendezvous", ["c10d", "static"])
def test_ranks_of_torchrun_delegate(
    plugin: Plugin,
    cache: Path,
    two_hosts: list[cluster.Host],
    tmp_path: Path,
    rendezvous: str,
    *,
    reverse: bool,
) -> None:
    """The first host is zeus, and the second apollo, which c10d numbers first."""
    config = tmp_path / "switchml.cfg"
    env = cluster.environment(
        SWITCHML_CONFIG=str(config), SWITCHML_FOR_GLOO="1", GLOO_SOCKET_IFNAME="cable"
    )
    first = two_hosts[0]
    hosts = list(enumerate(two_hosts))
    with serving(cache, tmp_path / "counters", 4, *first.command(), host=first.address) as switch:
        config.write_text(compose_simulated(aggregator=switch.address))
        agents = []
        for number, host in reversed(hosts) if reverse else hosts:
            where = (
                ["--rdzv-backend=c10d", f"--rdzv-endpoint={first.address}:29400", "--rdzv-id=1"]
                if rendezvous == "c10d"
                else [f"--node-rank={number}", f"--master-addr={first.address}"]
            )
            agents.append(
                subprocess.Popen(
                    host.command(
                        plugin.python, "-m", "torch.distributed.run", "--nnodes=2",
                        "--nproc-per-node=2", *where, cluster.PROGRAM, tmp_path,
                    ),
                    cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True,
                )
            )  # fmt: skip
            time.sleep(_APART)
        lines = [agent.communicate(timeout=ENOUGH)[1] for agent in agents]
    assert [agent.returncode for agent in agents] == [0, 0], lines
    found = cluster.read_records(tmp_path, 4)
    cluster.check_trained(found, 2)
    names = ["apollo", "zeus"] if rendezvous == "c10d" else ["zeus", "apollo"]
    assert [one["host"] for one in found] == [names[0]] * 2 + [names[1]] * 2
