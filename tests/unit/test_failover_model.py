"""Two chunks of memory for each job under way are enough to go on after any failure."""

from __future__ import annotations

import pytest
from support.failover_model import Rules, search

RIGHT = [
    Rules(ranks=2, jobs=4, window=2, results=2),
    Rules(ranks=3, jobs=4, window=2, results=2),
    Rules(ranks=2, jobs=5, window=3, results=3),
    Rules(ranks=2, jobs=3, window=1, results=1),
]


@pytest.mark.parametrize("rules", RIGHT, ids=str)
def test_no_failure_loses_or_mixes_a_sum(rules: Rules) -> None:
    found = search(rules)
    assert found.states > 100
    assert found.wrong == set()


@pytest.mark.parametrize(
    ("rules", "wrong"),
    [
        (Rules(results=0), "a result that one rank returned is lost to the others"),
        (Rules(results=1), "a result that one rank returned is lost to the others"),
        (Rules(window=3, results=2), "a result that one rank returned is lost to the others"),
        (Rules(apart=False), "a sum of mixed inputs"),
        (Rules(stops_first=False), "a sum of different jobs"),
    ],
    ids=str,
)
def test_what_is_not_enough(rules: Rules, wrong: str) -> None:
    assert wrong in search(rules).wrong
