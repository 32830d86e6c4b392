"""Time to make a process group: stock Gloo, patched without delegation, and with delegation.

Run by `make bench`. The first group that delegates starts the library's context and is not counted.
Each later group sums the probe again.
"""

from __future__ import annotations

import pytest
from pairs import Comparison
from support.launcher import Launcher

GROUPS = 6
TURNS = 3


@pytest.mark.parametrize("world", [2, 8, 16, 32])
def test_groups(launch: Launcher, world: int) -> None:
    """A group takes as long as its slowest rank."""

    def times(*, preload: bool, disabled: bool) -> list[float]:
        ranks = launch(
            "group_times:time_groups", world, arguments={"rounds": GROUPS}, preload=preload,
            env={"SWITCHML_DISABLE": "1"} if disabled else {},
        )  # fmt: skip
        results = [rank.result for rank in ranks]
        delegating = preload and not disabled
        assert all(result["delegating"] == [delegating] * GROUPS for result in results)
        return [max(result["seconds"][number] for result in results) for number in range(1, GROUPS)]

    stock, patched, delegating = [], [], []
    for _ in range(TURNS):
        stock += times(preload=False, disabled=False)
        patched += times(preload=True, disabled=True)
        delegating += times(preload=True, disabled=False)
    for name, found in (("nothing delegates", patched), ("it delegates", delegating)):
        comparison = Comparison(found, stock).describe("unpatched", unit="ms", per_second=1e3)
        print(f"\ngroup of {world} ranks, {name}: {comparison}")
