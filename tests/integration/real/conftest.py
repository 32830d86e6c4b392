"""The real client library, compiled from the checkout that SWITCHML_SOURCE names."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from support import real_client, switch_program
from support.shared import once
from support.torch import checked

from patchgen import switch as switches

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# Without them it compiles nowhere, or does not start with a port in software.
NEEDED = ("dpdk-names", "first-timeout", "flow-rules", "glog", "start-waits", "refused", "stop")


@pytest.fixture(scope="session")
def checkout() -> Path:
    return real_client.source()


@pytest.fixture(scope="session")
def switch(tmp_path_factory: pytest.TempPathFactory, checkout: Path) -> str:
    assert checkout.is_dir()
    return switches.build(str(switch_program.cache(tmp_path_factory)), os.environ)


def library(
    factory: pytest.TempPathFactory, checkout: Path, name: str, without: Sequence[str] = ()
) -> Path:
    left = [word for one in without for word in ("--without", one)]
    return once(
        factory,
        name,
        lambda place: checked("client", "build", checkout, "--dpdk", "-o", place, *left),
    )


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory, checkout: Path) -> Path:
    """A SWITCHML_HOME with all mends."""
    return library(tmp_path_factory, checkout, "client")


@pytest.fixture(scope="session")
def half_batches(tmp_path_factory: pytest.TempPathFactory, checkout: Path) -> Path:
    """One without the mend of that name."""
    return library(tmp_path_factory, checkout, "half-batches", ["half-batch"])


@pytest.fixture(scope="session")
def unmended(tmp_path_factory: pytest.TempPathFactory, checkout: Path) -> Path:
    """One with those mends only without which nothing starts."""
    from patchgen.client import mends

    left = [mend.id for mend in mends.read_shipped() if mend.id not in NEEDED]
    return library(tmp_path_factory, checkout, "unmended", left)
