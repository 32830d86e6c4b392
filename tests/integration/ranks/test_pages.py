"""What docs show of a patched torch runs as it stands there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.page_ranks import check_script, scripts

if TYPE_CHECKING:
    from support.launcher import Launcher
    from support.pages import Block

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("block", scripts(plugin=False), ids=str)
def test_a_script_delegates(launch: Launcher, block: Block) -> None:
    check_script(launch, block)
