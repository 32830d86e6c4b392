"""A rank with the real client library is killed in the middle of a sum: the job starts again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.restarts import by_run, check_goes_on

if TYPE_CHECKING:
    from support.real import LabLauncher

pytestmark = pytest.mark.integration


def test_the_labs_switch(by_plugin: LabLauncher, tmp_path: Path) -> None:
    """The switch stays, and its controller has the session of the dead."""
    cache = Path(by_plugin.switch).parents[2]
    lab = ("--lab", "--way=plugin", "--dpdk", "--switchml-home", by_plugin.home)
    command = by_run("--torch", by_plugin.python, *lab, "--cache", cache)
    env = {"SWITCHML_FAILOVER": "1", "SWITCHML_TIMEOUT_MS": "5000"}
    check_goes_on(command, tmp_path, "gloo", 1, **env)
