"""Ranks that a real SLURM starts, with one switchml.cfg for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support import cluster
from support.serving import serving

from patchgen.client.config import compose_simulated
from patchgen.system.ports import free_port

if TYPE_CHECKING:
    from pathlib import Path

    from support.slurm import Slurm
    from support.torch import Plugin

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_of_srun_delegate(
    nodes: Slurm, plugin: Plugin, cache: Path, tmp_path: Path, ranks: int
) -> None:
    """Their nodes have no address of their own here, so the program is told rank 0's."""
    config = tmp_path / "switchml.cfg"
    env = cluster.environment(
        SWITCHML_CONFIG=str(config), GLOO_SOCKET_IFNAME="lo",
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()),
    )  # fmt: skip
    with serving(cache, tmp_path / "counters", ranks) as switch:
        config.write_text(compose_simulated(aggregator=switch.address))
        done = nodes.srun(
            "-N2", f"-n{ranks}", plugin.python, cluster.PROGRAM, tmp_path, cwd=tmp_path, env=env
        )
    assert done.returncode == 0, done.stderr
    cluster.check_delegated(cluster.read_records(tmp_path, ranks), ranks // 2)
