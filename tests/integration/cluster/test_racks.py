"""Racks of hosts of ranks, as many as this machine has room for: a switch for each rack."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from support.torch import plugin_launcher, results

from patchgen.system.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from support.forking import Servers
    from support.launcher import Launcher
    from support.torch import Plugin

pytestmark = pytest.mark.cluster

RANKS = int(os.environ.get("SWITCHML_TEST_RANKS", "64"))  # a power of two
RACKS, EACH = 4, 8  # ranks of a host
SIZES = [1, 1000, 100_003]


@pytest.fixture(scope="module")
def launch(
    plugin: Plugin, home: Path, servers: Servers, tmp_path_factory: pytest.TempPathFactory
) -> Launcher:
    return plugin_launcher(plugin, home, tmp_path_factory.mktemp("ranks"), servers)


def test_all_ranks_of_all_racks_have_the_same_sums(launch: Launcher) -> None:
    """Leaders find their racks, and their ranks there, by names alone."""
    in_rack = RANKS // RACKS
    ports = [free_port() for _ in range(RACKS)]
    configs: dict[int, Mapping[str, object] | None] = {
        rank: {"rank": "auto", "num_workers": "auto", "controller_port": ports[rank // in_rack]}
        for rank in range(RANKS)
    }
    names = {
        rank: {"SWITCHML_RACK": f"rack{rank // in_rack}", "SWITCHML_HOST": f"host{rank // EACH}"}
        for rank in range(RANKS)
    }
    ranks = launch(
        "hierarchies:averages", RANKS, arguments={"sizes": SIZES}, per_rank=configs,
        rank_env=names, env={"SWITCHML_REQUIRE": "1"}, timeout=900, limit=1200,
    )  # fmt: skip
    for number, result in enumerate(results(ranks)):
        leads = number % EACH == 0
        assert result["leader"] == number - number % EACH
        assert result["report"]["calls"] == (len(SIZES) if leads else 0)
        assert result["report"]["world_size"] == (in_rack // EACH if leads else 0)
