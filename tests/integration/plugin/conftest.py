"""The plugin for the torch of PyPI. The fixtures have the names that the tests of the patch use."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.device import device
from support.forking import Servers
from support.launcher import Launcher
from support.torch import (
    Plugin,
    plugin,
    plugin_launcher,
    torch,
    torch_launcher,
)


@pytest.fixture(scope="session")
def torch_python(plugin: Plugin) -> Path:
    return plugin.python


@pytest.fixture(scope="session")
def launch(
    plugin: Plugin,
    home: Path,
    servers: Servers,
    tmp_path_factory: pytest.TempPathFactory,
) -> Launcher:
    return plugin_launcher(plugin, home, tmp_path_factory.mktemp("plugin-ranks"), servers)
