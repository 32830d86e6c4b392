"""Unit tests compile nothing: the compilers on their PATH only say their names."""

from __future__ import annotations

import os
from itertools import chain
from pathlib import Path

import pytest
from support.programs import script

from patchgen.system.native.tools import COMPILERS


@pytest.fixture(scope="session")
def compilers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("compilers")
    for name in (*chain(*COMPILERS.values()), "clang++"):
        script(directory / name, f"#!/bin/sh\necho '{name} of the unit tests'\n")
    return directory


@pytest.fixture(autouse=True)
def _compiles_nothing(compilers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{compilers}{os.pathsep}{os.environ['PATH']}")
