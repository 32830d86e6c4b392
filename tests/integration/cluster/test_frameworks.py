"""Trainings of Accelerate and Lightning over two hosts, as they are, whose gradients delegate."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from support import cluster, run_hosts
from support.torch import REPOSITORY, pypi_interpreter

if TYPE_CHECKING:
    from pathlib import Path

    from support.torch import Plugin

pytestmark = pytest.mark.cluster

PROGRAMS = REPOSITORY / "tests" / "payload"
STEPS = 16 * 4 // 4  # of each rank: batches, epochs, and ranks that share a data set


@pytest.fixture(scope="module")
def frameworks() -> Path:
    """Interpreter with the frameworks, and the torch that the plugin is for."""
    return pypi_interpreter("frameworks")


@pytest.mark.parametrize("framework", ["accelerate", "lightning"])
def test_an_ordinary_training_delegates(
    frameworks: Path,
    plugin: Plugin,
    two_hosts: list[cluster.Host],
    tmp_path: Path,
    framework: str,
) -> None:
    env = cluster.environment(
        TMPDIR=str(tmp_path), XDG_CACHE_HOME=str(tmp_path / "cache"),
        PYTHONPATH=str(plugin.package.parent),
    )  # fmt: skip
    command = [frameworks, PROGRAMS / f"{framework}_train.py", tmp_path]
    hosts = run_hosts.begin_on(two_hosts, tmp_path, ["--node-rank={node}"], command, env)
    assert [host.code for host in hosts] == [0, 0], [host.err for host in hosts]
    ranks = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(4)]
    for rank in ranks:
        assert rank["weights"] == ranks[0]["weights"]
        assert rank["losses"][-1] < rank["losses"][0] / 2
        assert rank["size"] == 4
        assert len(rank["losses"]) == STEPS
    for told in hosts[0].report["ranks"]:
        assert told["report"]["calls"] >= STEPS
        assert told["report"]["fallbacks"]["group"] == 0
