"""torch.distributed's documented functions by the plugin, as by gloo of the same torch."""

from __future__ import annotations

from pathlib import Path

from support.launcher import Launcher
from support.table import begin_table, check_all_summed, differences, run_table, summed

NOT_ALIKE = "group_itself"  # the group is named custom


def test_same_outcome(launch: Launcher, tmp_path: Path) -> None:
    delegating = begin_table(launch, tmp_path / "mine", "OFF", preload=True)
    stock = run_table(launch, tmp_path / "stock", "OFF", preload=False)  # meanwhile
    mine = delegating()
    for ranks in (stock, mine):
        for rank in ranks:
            del rank["cells"][NOT_ALIKE]
    assert differences(mine, stock) == []
    check_all_summed(mine)
    for rank in stock:
        assert summed(rank) == set()
