"""What docs show of the plugin runs as it stands there."""

from __future__ import annotations

import pytest
from support.launcher import Launcher
from support.page_ranks import check_script, scripts
from support.pages import Block


@pytest.mark.parametrize("block", scripts(plugin=True), ids=str)
def test_a_script_delegates(launch: Launcher, block: Block) -> None:
    check_script(launch, block)
