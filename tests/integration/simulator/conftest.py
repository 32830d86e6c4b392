"""The aggregator of the command, compiled once with sanitizers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.serving import Served, serving
from support.shared import once
from support.simulator import SANITIZERS, SANITIZING, Home

from patchgen.extras.lab.simulator import aggregator
from patchgen.system import native

SANITIZED = " ".join(("-O0 -g1 -Werror", *SANITIZERS["address"]))


@pytest.fixture(scope="session")
def driver(simulator_home: Home) -> Path:
    return simulator_home.driver


@pytest.fixture
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One that has the program, as the command compiles it for an environment with sanitizers."""
    monkeypatch.setenv("CXX", SANITIZING)
    monkeypatch.setenv("CXXFLAGS", SANITIZED)
    monkeypatch.setenv("CMAKE_BUILD_TYPE", "None")  # of a release, -O3 would come after ours
    return once(
        tmp_path_factory,
        "aggregator",
        lambda place: native.get_or_build(aggregator.PROJECT, str(place), os.environ),
    )


@pytest.fixture
def served(cache: Path, tmp_path: Path) -> Iterator[Served]:
    """For two workers."""
    with serving(cache, tmp_path / "counters.json", 2) as running:
        yield running
