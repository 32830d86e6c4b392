"""The plugin for the torch of PyPI. The fixtures have the names that the tests of the patch use."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from support.device import clang, device, probed
from support.launcher import Launcher
from support.prometheus import programs
from support.torch import Plugin, torch_launcher


@pytest.fixture(scope="session")
def torch_python(plugin: Plugin) -> Path:
    return plugin.python


@pytest.fixture(scope="session")
def launch(plugin_launch: Launcher) -> Launcher:
    return plugin_launch


@pytest.fixture
def stale(plugin: Plugin, tmp_path: Path) -> Plugin:
    """The plugin, in an environment where torch is not the one that it was built for."""
    python = tmp_path / "venv" / "bin" / "python"
    shutil.copytree(plugin.python.parents[1], tmp_path / "venv", symlinks=True)
    (package,) = python.parents[1].glob("lib/python*/site-packages/torch_switchml")
    built = (package / "_built.py").read_text()
    (package / "_built.py").write_text(re.sub(r"TORCH = \('", "TORCH = ('0.", built))
    return Plugin(plugin.wheel, plugin.torch, python)
