"""All ranks learn of a failure, and of a rank that has given up."""

from __future__ import annotations

import pytest
from support.warning_model import GLOO, GONE, Rules, search


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_all_ranks_go_on_or_none(ranks: int) -> None:
    found = search(Rules(ranks))
    assert found.states > 10 * ranks
    assert found.ends == {(GLOO,) * ranks, (GONE,) * ranks}
    assert found.wrong == set()


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_no_rank_waits_for_one_that_gives_up(ranks: int) -> None:
    found = search(Rules(ranks, fails=False))
    assert (found.ends, found.wrong) == ({(GONE,) * ranks}, set())


@pytest.mark.parametrize(
    ("rules", "wrong"),
    [
        (Rules(fails=False, warns=False), "a rank waits for ever"),
        (Rules(compares=False), "a rank waits for ever"),
        (Rules(says_so=False), "a rank goes on without another"),
    ],
    ids=str,
)
def test_silence_is_not_enough(rules: Rules, wrong: str) -> None:
    assert wrong in search(rules).wrong
