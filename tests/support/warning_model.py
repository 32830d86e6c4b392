"""A model of warnings: how the ranks of a ring learn that one has failed, or has given up.

A rank that fails warns the next one, and so does a rank that is warned. Whoever has warned and was
warned takes part in a comparison of all ranks, which ends when all take part. A rank that has given
up says so there; then all others give up as well. Otherwise they go on over Gloo.

The state is explored whole, so what is shown holds for every order of events.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from support.states import visit

RUNS, SUSPENDED, GLOO, GONE = "runs", "suspended", "gloo", "gone"


@dataclass(frozen=True)
class Rules:
    """Sizes of the model, and what a rank does that gives up."""

    ranks: int = 2
    fails: bool = True
    """True where any rank may fail by itself."""
    gives_up: bool = True
    """True where a rank may do so, at any moment until the ranks compare."""
    warns: bool = True
    """True where it warns the next rank."""
    compares: bool = True
    """True where it takes part in the comparison."""
    says_so: bool = True
    """True where the others learn there that it has given up."""


@dataclass(frozen=True)
class Rank:
    """Rank of the model."""

    mode: str = RUNS
    warned: bool = False
    """True once it has warned the next rank."""
    compares: bool = False


@dataclass
class Outcome:
    """Result of a search."""

    states: int = 0
    ends: set[tuple[str, ...]] = field(default_factory=set)
    """Modes of the ranks where nothing happens any more."""
    wrong: set[str] = field(default_factory=set)


def search(rules: Rules) -> Outcome:
    """Visits every state that can be reached."""
    found = Outcome()
    first = (Rank(),) * rules.ranks
    for ranks, after in visit(first, lambda ranks: steps(rules, ranks)):
        found.states += 1
        if not after:
            modes = tuple(rank.mode for rank in ranks)
            found.ends.add(modes)
            if GONE in modes and GLOO in modes:
                found.wrong.add("a rank goes on without another")
            elif len(set(modes)) > 1:
                found.wrong.add("a rank waits for ever")
    return found


def steps(rules: Rules, ranks: tuple[Rank, ...]) -> Iterator[tuple[Rank, ...]]:
    """States after one more event."""

    def change(number: int, **changes: object) -> tuple[Rank, ...]:
        rank = replace(ranks[number], **changes)  # type: ignore[arg-type]
        return (*ranks[:number], rank, *ranks[number + 1 :])

    for number, rank in enumerate(ranks):
        heard = ranks[number - 1].warned
        if rank.mode == RUNS:
            if heard or rules.fails:
                yield change(number, mode=SUSPENDED)
        elif not rank.warned and (rank.mode == SUSPENDED or rules.warns):
            yield change(number, warned=True)
        may = rules.gives_up and all(one.mode != GONE for one in ranks)
        if may and rank.mode in {RUNS, SUSPENDED} and not rank.compares:
            yield change(number, mode=GONE)
        takes_part = rank.mode == SUSPENDED or (rank.mode == GONE and rules.compares)
        if heard and rank.warned and takes_part and not rank.compares:
            yield change(number, compares=True)
    if all(rank.compares for rank in ranks) and any(rank.mode == SUSPENDED for rank in ranks):
        ends = rules.says_so and any(rank.mode == GONE for rank in ranks)
        yield tuple(
            replace(rank, mode=GONE if ends or rank.mode == GONE else GLOO) for rank in ranks
        )
