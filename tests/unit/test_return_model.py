"""Ranks return to their switch together, whatever happens to any of them meanwhile."""

from __future__ import annotations

import pytest
from support.return_model import Rules, search

RIGHT = [
    Rules(),
    Rules(jobs=5, failures=3),
    Rules(ranks=3, jobs=3, failures=2, tried=(1,)),
    Rules(jobs=4, window=1, tried=(1, 2, 3)),
]


@pytest.mark.parametrize("rules", RIGHT, ids=str)
def test_all_ranks_return_or_none(rules: Rules) -> None:
    found = search(rules)
    assert found.states > 1000
    assert found.returns > 10
    assert found.wrong == set()


@pytest.mark.parametrize(
    ("rules", "wrong"),
    [
        (Rules(counts_from_all=False), "ranks mix operations"),
        (Rules(waits_for_stop=False), "a packet of the old session reaches the new one"),
        (Rules(waits_for_sums=False), "a job of the old session ends the new one"),
        (Rules(agrees=False), "ranks wait for ever"),
    ],
    ids=str,
)
def test_less_agreement_is_not_enough(rules: Rules, wrong: str) -> None:
    assert wrong in search(rules).wrong
