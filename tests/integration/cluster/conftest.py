"""The plugin for the torch of PyPI, and one switchml.cfg that serves all ranks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support import cluster, slurm
from support.hosts import ADDRESS, SECOND
from support.shared import provided
from support.torch import plugin, torch


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def frameworks() -> Path:
    """Interpreter with the frameworks, and the torch that the plugin is for."""
    return provided("frameworks", "a registry that has them")


@pytest.fixture(scope="session")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[slurm.Slurm]:
    """A SLURM with two hosts, hx0 and hx1."""
    addresses = {"hx0": ADDRESS, "hx1": SECOND}
    with (
        cluster.two_hosts(addresses, tmp_path_factory.mktemp("nodes")) as hosts,
        slurm.running(hosts) as found,
    ):
        yield found


@pytest.fixture
def two_hosts(tmp_path: Path) -> Iterator[list[cluster.Host]]:
    """zeus and apollo, with a cable between them."""
    with cluster.two_hosts({"zeus": ADDRESS, "apollo": SECOND}, tmp_path) as found:
        yield found
