"""The plugin for the torch of PyPI, and one switchml.cfg that serves all ranks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from support import slurm
from support.cluster import Host
from support.hosts import ADDRESS, SECOND, hosts
from support.torch import plugin, pypi_interpreter, torch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def frameworks() -> Path:
    """Interpreter with the frameworks, and the torch that the plugin is for."""
    return pypi_interpreter("frameworks")


@pytest.fixture(scope="session")
def nodes() -> Iterator[slurm.Slurm]:
    """A SLURM of this machine alone."""
    with slurm.running() as found:
        yield found


@pytest.fixture
def two_hosts(tmp_path: Path) -> Iterator[list[Host]]:
    """zeus and apollo, with a cable between them."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to give each host a name of its own")
    named = {"zeus": ADDRESS, "apollo": SECOND}
    names = tmp_path / "hosts"
    lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in named.items())]
    names.write_text("\n".join([*lines, ""]))
    with hosts() as found:
        yield [Host(net, name, named[name], names) for net, name in zip(found, named)]
