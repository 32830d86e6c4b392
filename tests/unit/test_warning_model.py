"""All ranks learn of a failure, and of a rank that gives up, wherever they are."""

from __future__ import annotations

import pytest
from support.warning_model import GLOO, GONE, RUNS, SUSPENDED, Rules, search


@pytest.mark.parametrize(("ranks", "notice"), [(2, 1), (2, 2), (3, 1), (3, 3), (4, 1)])
def test_all_ranks_return(ranks: int, notice: int) -> None:
    found = search(Rules(ranks, notice=notice, gives_up=False))
    assert found.states > 10 * ranks
    assert (found.ends, found.wrong) == ({(RUNS,) * ranks}, set())


@pytest.mark.parametrize(("ranks", "notice"), [(2, 0), (3, 0), (4, 0), (2, 2), (3, 3)])
def test_no_rank_waits_for_one_that_gives_up(ranks: int, notice: int) -> None:
    found = search(Rules(ranks, notice=notice))
    assert (found.ends, found.wrong) == ({(GONE,) * ranks}, set())


@pytest.mark.parametrize(
    "rules",
    [
        Rules(warns=(SUSPENDED, GLOO), notice=0),
        Rules(warns=(RUNS, GLOO)),
        Rules(warns=(RUNS, SUSPENDED)),
        Rules(hears=(RUNS, SUSPENDED)),
        Rules(ranks=3, passes_on=False),
        Rules(gives_up=False, keeps=False),
    ],
    ids=str,
)
def test_silence_is_not_enough(rules: Rules) -> None:
    assert search(rules).wrong == {"a rank waits for ever"}
