"""Ranks that a real SLURM starts, with one switchml.cfg for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support import cluster
from support.hosts import INTERFACE
from support.serving import serving

from patchgen.core.library.config import compose_simulated

if TYPE_CHECKING:
    from pathlib import Path

    from support.slurm import Slurm
    from support.torch import Plugin

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_of_srun_delegate(
    nodes: Slurm, plugin: Plugin, cache: Path, tmp_path: Path, ranks: int
) -> None:
    """The address of rank 0 is that of the job's first node."""
    config, first = tmp_path / "switchml.cfg", nodes.hosts[0]
    env = cluster.environment(
        SWITCHML_CONFIG=str(config), GLOO_SOCKET_IFNAME=INTERFACE, MASTER_PORT="29500"
    )
    with serving(
        cache, tmp_path / "counters", ranks, *first.command(), host=first.address
    ) as switch:
        config.write_text(compose_simulated(aggregator=switch.address))
        done = nodes.srun(
            "-N2", f"-n{ranks}", plugin.python, cluster.PROGRAM, tmp_path, cwd=tmp_path, env=env
        )
    assert done.returncode == 0, done.stderr
    found = cluster.read_records(tmp_path, ranks)
    cluster.check_delegated(found, ranks // 2)
    each = ranks // 2
    assert [one["host"] for one in found] == ["hx0"] * each + ["hx1"] * each
