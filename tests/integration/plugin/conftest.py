"""The plugin for the torch of PyPI. The fixtures have the names that the tests of the patch use."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import torch_project
from support.device import clang, device, probed
from support.forking import Servers
from support.launcher import Launcher
from support.prometheus import programs
from support.torch import Plugin, as_built, plugin_here, plugin_launcher, torch_launcher


@pytest.fixture(scope="session")
def torch_python(plugin: Plugin) -> Path:
    return plugin.python


@pytest.fixture(scope="session")
def launch(plugin_launch: Launcher) -> Launcher:
    return plugin_launch


@pytest.fixture
def light(
    request: pytest.FixtureRequest, home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Plugin]:
    """The plugin for Debian's torch, whose import takes half the time; elsewhere `plugin`.

    For new interpreters, where the release of torch does not matter.
    """
    if not torch_project.DEBIAN_TORCH.exists() or "SWITCHML_TEST_PYTHON" in os.environ:
        yield request.getfixturevalue("plugin")
        return
    python = Path(torch_project.PYTHON)
    with as_built(python):
        yield plugin_here(python, home, tmp_path_factory)


@pytest.fixture
def light_launch(light: Plugin, home: Path, servers: Servers, tmp_path: Path) -> Launcher:
    return plugin_launcher(light, home, tmp_path, servers)


@pytest.fixture
def stale(plugin: Plugin, tmp_path: Path) -> Plugin:
    """The plugin, in an environment where torch is not the one that it was built for."""
    python = tmp_path / "venv" / "bin" / "python"
    shutil.copytree(plugin.python.parents[1], tmp_path / "venv", symlinks=True)
    (package,) = python.parents[1].glob("lib/python*/site-packages/torch_switchml")
    built = (package / "_built.py").read_text()
    (package / "_built.py").write_text(re.sub(r"TORCH = \('", "TORCH = ('0.", built))
    return dataclasses.replace(plugin, python=python)
