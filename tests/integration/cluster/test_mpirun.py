"""Ranks that Open MPI's mpirun starts on two hosts, with one switchml.cfg for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support import cluster, mpirun
from support.hosts import INTERFACE
from support.serving import serving

from patchgen.client.config import compose_simulated

if TYPE_CHECKING:
    from pathlib import Path

    from support.torch import Plugin

pytestmark = pytest.mark.cluster


def test_ranks_of_mpirun_delegate(
    plugin: Plugin, cache: Path, two_hosts: list[cluster.Host], tmp_path: Path
) -> None:
    first, second = two_hosts
    config = tmp_path / "switchml.cfg"
    env = cluster.environment(
        SWITCHML_CONFIG=str(config), GLOO_SOCKET_IFNAME=INTERFACE, MASTER_PORT="29500"
    )
    command = [plugin.python, cluster.PROGRAM, tmp_path]
    with serving(cache, tmp_path / "counters", 4, *first.command(), host=first.address) as switch:
        config.write_text(compose_simulated(aggregator=switch.address))
        done = mpirun.run(two_hosts, 2, command, tmp_path, env)
    assert done.returncode == 0, done.stderr
    found = cluster.read_records(tmp_path, 4)
    cluster.check_delegated(found, 2)
    assert [one["host"] for one in found] == [first.name] * 2 + [second.name] * 2
