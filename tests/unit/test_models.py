"""The models of a failure, searched in every order of events; each rule of them is needed."""

from __future__ import annotations

from typing import Any

import pytest
from support import failover_model as failover
from support import return_model, warning_model
from support.warning_model import GLOO, GONE, RUNS, SUSPENDED


@pytest.mark.parametrize(
    "rules",
    [
        failover.Rules(ranks=2, jobs=4, window=2, results=2),
        failover.Rules(ranks=3, jobs=4, window=2, results=2),
        failover.Rules(ranks=2, jobs=5, window=3, results=3),
        failover.Rules(ranks=2, jobs=3, window=1, results=1),
    ],
    ids=str,
)
def test_no_failure_loses_or_mixes_a_sum(rules: failover.Rules) -> None:
    """Two chunks of memory for each job under way are enough to go on after any failure."""
    found = failover.search(rules)
    assert found.states > 100
    assert found.wrong == set()


@pytest.mark.parametrize(
    "rules",
    [
        return_model.Rules(),
        return_model.Rules(jobs=5, failures=3),
        return_model.Rules(ranks=3, jobs=3, failures=2, tried=(1,)),
        return_model.Rules(jobs=4, window=1, tried=(1, 2, 3)),
    ],
    ids=str,
)
def test_all_ranks_return_to_their_switch_or_none(rules: return_model.Rules) -> None:
    found = return_model.search(rules)
    assert found.states > 1000
    assert found.returns > 10
    assert found.wrong == set()


@pytest.mark.parametrize(("ranks", "notice"), [(2, 1), (2, 2), (3, 1), (3, 3), (4, 1)])
def test_all_ranks_learn_of_a_failure(ranks: int, notice: int) -> None:
    found = warning_model.search(warning_model.Rules(ranks, notice=notice, aborts=False))
    assert found.states > 10 * ranks
    assert (found.ends, found.wrong) == ({(RUNS,) * ranks}, set())


@pytest.mark.parametrize(("ranks", "notice"), [(2, 0), (3, 0), (4, 0), (2, 2), (3, 3)])
def test_no_rank_waits_for_one_that_aborts(ranks: int, notice: int) -> None:
    found = warning_model.search(warning_model.Rules(ranks, notice=notice))
    assert (found.ends, found.wrong) == ({(GONE,) * ranks}, set())


LOST = "a result that one rank returned is lost to the others"
OLD_PACKET = "a packet of the old session reaches the new one"
WAITS = "a rank waits for ever"


@pytest.mark.parametrize(
    ("model", "less", "wrong"),
    [
        (failover, {"results": 0}, LOST),
        (failover, {"results": 1}, LOST),
        (failover, {"window": 3, "results": 2}, LOST),
        (failover, {"apart": False}, "a sum of mixed inputs"),
        (failover, {"stops_first": False}, "a sum of different jobs"),
        (return_model, {"counts_from_all": False}, "ranks mix operations"),
        (return_model, {"waits_for_stop": False}, OLD_PACKET),
        (return_model, {"waits_for_sums": False}, "a job of the old session ends the new one"),
        (return_model, {"agrees": False}, "ranks wait for ever"),
        (warning_model, {"warns": (SUSPENDED, GLOO), "notice": 0}, WAITS),
        (warning_model, {"warns": (RUNS, GLOO)}, WAITS),
        (warning_model, {"warns": (RUNS, SUSPENDED)}, WAITS),
        (warning_model, {"receives": (RUNS, SUSPENDED)}, WAITS),
        (warning_model, {"ranks": 3, "forwards": False}, WAITS),
        (warning_model, {"aborts": False, "keeps": False}, WAITS),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_less_is_not_enough(model: Any, less: dict[str, Any], wrong: str) -> None:
    assert model.search(model.Rules(**less)).wrong == {wrong}
