"""Environments in which the pages' commands run."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest
from support.page_shell import Shell, make_environment, make_shell
from support.torch import Plugin, plugin, torch


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def paths(home: Path, tmp_path: Path) -> dict[str, Path]:
    """Directories that the pages name; the client library is the simulator."""
    own = shutil.copytree(home, tmp_path / "switchml")
    return {
        "/etc/switchml.cfg": own / "switchml.cfg",
        "/opt/switchml": own,
        "/tmp/switchml": tmp_path / "simulator",  # noqa: S108  # replaced
        "/tmp/port": tmp_path / "port",  # noqa: S108  # likewise
    }


@pytest.fixture
def plugged(plugin: Plugin, cache: Path, paths: dict[str, Path], tmp_path: Path) -> Shell:
    """PyPI's torch with the plugin, which takes Gloo's place."""
    shell = make_shell(tmp_path, plugin.python, cache, paths)
    return dataclasses.replace(shell, environ={**shell.environ, "SWITCHML_FOR_GLOO": "1"})


@pytest.fixture
def bare(torch: Path, cache: Path, paths: dict[str, Path], tmp_path: Path) -> Shell:
    """PyPI's torch, in an environment that may be changed."""
    return make_shell(tmp_path, make_environment(torch, tmp_path / "venv"), cache, paths)


@pytest.fixture
def pinned(torch_python: Path, cache: Path, paths: dict[str, Path], tmp_path: Path) -> Shell:
    """The system's torch, which has a pin, in an environment that may be changed."""
    return make_shell(tmp_path, make_environment(torch_python, tmp_path / "venv"), cache, paths)
