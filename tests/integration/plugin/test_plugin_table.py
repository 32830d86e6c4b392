"""torch.distributed's documented functions by the plugin, as by gloo of the same torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import test_table as of_the_patch

if TYPE_CHECKING:
    from pathlib import Path

    from support.launcher import Launcher

pytestmark = pytest.mark.integration

NOT_ALIKE = {
    "monitored_barrier": "torch has it for the name gloo only",
    "monitored_barrier_waits_for_all": "likewise",
    "monitored_barrier_without_rank_1": "likewise",
    "monitored_barrier_without_rank_1_waits_for_all": "likewise",
    "group_itself": "the group is named custom",
}


def test_same_outcome(launch: Launcher, tmp_path: Path) -> None:
    delegating = of_the_patch.begun(launch, tmp_path / "mine", "OFF", preload=True)
    stock = of_the_patch.table(launch, tmp_path / "stock", "OFF", preload=False)  # meanwhile
    mine = delegating()
    for ranks in (stock, mine):
        for rank in ranks:
            for name in NOT_ALIKE:
                del rank["cells"][name]
    assert of_the_patch.differences(mine, stock) == []
    of_the_patch.all_summed(mine)
    for rank in stock:
        assert of_the_patch.summed(rank) == set()
