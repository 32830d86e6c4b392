"""The real client library, compiled from the checkout that SWITCHML_SOURCE names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.shared import once
from support.torch import checked

from patchgen import switch as switches

if TYPE_CHECKING:
    from collections.abc import Sequence

# Without them it compiles nowhere, or does not start with a port in software.
NEEDED = ("dpdk-names", "first-timeout", "flow-rules", "glog", "start-waits", "refused", "stop")


@pytest.fixture(scope="session")
def checkout() -> Path:
    given = os.environ.get("SWITCHML_SOURCE")
    if not given:
        pytest.skip(
            "set SWITCHML_SOURCE to a clone of https://github.com/p4lang/p4app-switchML, "
            "or run: make test-real SWITCHML_SOURCE=DIR"
        )
    return Path(given).resolve()


@pytest.fixture(scope="session")
def switch(tmp_path_factory: pytest.TempPathFactory, checkout: Path) -> str:
    assert checkout.is_dir()
    made = once(
        tmp_path_factory, "switch", lambda place: switches.build(str(place), dict(os.environ))
    )
    return switches.build(str(made), dict(os.environ))


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

    left = [mend.id for mend in mends.shipped() if mend.id not in NEEDED]
    return library(tmp_path_factory, checkout, "unmended", left)
