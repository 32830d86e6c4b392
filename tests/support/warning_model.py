"""A model of warnings: how the ranks of a ring learn that one has failed, or has given up.

A rank that fails warns the next one, and so does a rank that is warned. Whoever has warned and was
warned compares with all others, and goes on over Gloo. Then the ranks sum a job, and return to
their switch, which may fail again. A comparison, a sum and a return are operations of all ranks:
each ends on a rank, at a moment of its own, when all have begun it.

A rank may give up at any moment. It sends a last warning, which ends each rank that hears it, and
which that one passes on. The warnings of a rank come in their order.

Every state is visited: see states.py, and there why no model checker is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from support.states import visit

RUNS, SUSPENDED, GLOO, GONE = "runs", "suspended", "gloo", "gone"
WARNING, LAST = "warning", "last"
COMPARISON, RETURN, ROUND = 0, 2, 3  # operations after a failure, of which the sum is another


@dataclass(frozen=True)
class Rules:
    """Sizes of the model, and what its ranks do."""

    ranks: int = 2
    failures: int = 2
    """Failures of the switch, one after another."""
    notice: int = 1
    """Ranks that notice it by themselves."""
    gives_up: bool = True
    """True where a rank may do so."""
    warns: tuple[str, ...] = (RUNS, SUSPENDED, GLOO)
    """Modes in which a rank that gives up sends a last warning."""
    hears: tuple[str, ...] = (RUNS, SUSPENDED, GLOO)
    """Modes in which a rank hears warnings."""
    passes_on: bool = True
    """True where a rank passes a last warning on."""
    keeps: bool = True
    """True where a warning that comes before a rank has returned is heeded when it has."""


@dataclass(frozen=True)
class Rank:
    """Rank of the model."""

    mode: str = RUNS
    warned: bool = False
    """True once it has warned the next rank of the newest failure."""
    heard: bool = False
    """True once it was warned of it."""
    place: int = 0
    """Operations that have ended."""
    inside: bool = False
    """True where it has begun the next one."""
    inbox: tuple[str, ...] = ()
    """Warnings that it has yet to hear."""


Ranks = tuple[Rank, ...]


@dataclass
class Outcome:
    """Result of a search."""

    states: int = 0
    ends: set[tuple[str, ...]] = field(default_factory=set)
    """Modes of the ranks where nothing happens any more."""
    wrong: set[str] = field(default_factory=set)


def search(rules: Rules) -> Outcome:
    """Visit every reachable state."""
    found = Outcome()
    for ranks, after in visit((Rank(),) * rules.ranks, lambda ranks: steps(rules, ranks)):
        found.states += 1
        if not after:
            found.ends.add(tuple(rank.mode for rank in ranks))
            if len({(rank.mode, rank.mode == GONE or rank.place) for rank in ranks}) > 1:
                found.wrong.add("a rank waits for ever")
    return found


def steps(rules: Rules, ranks: Ranks) -> Iterator[Ranks]:
    """Yield the states after one more event."""
    for number, rank in enumerate(ranks):
        if rank.mode == GONE:
            continue
        if rules.gives_up and all(one.mode != GONE for one in ranks):
            yield from give_up(rules, ranks, number)
        if rank.inbox and rank.mode in rules.hears:
            yield hear(rules, ranks, number)
        if rank.mode == RUNS:
            if number < rules.notice and rank.place < rules.failures * ROUND:
                yield suspend(ranks, number, rank)
        elif rank.inside:
            if all((one.place, one.inside) >= (rank.place, True) for one in ranks):
                yield end(ranks, number)
        elif rank.mode == GLOO or (rank.warned and rank.heard):
            yield tell(ranks, number, replace(rank, inside=True))


def tell(ranks: Ranks, number: int, rank: Rank, warning: str = "") -> Ranks:
    """Return the ranks with a new value of one, and with its warning under way to the next."""
    after = list(ranks)
    after[number] = rank
    if warning:
        to = (number + 1) % len(ranks)
        after[to] = replace(after[to], inbox=(*after[to].inbox, warning))
    return tuple(after)


def suspend(ranks: Ranks, number: int, rank: Rank) -> Ranks:
    """Return the ranks after a running one failed or was warned: it warns the next."""
    return tell(ranks, number, replace(rank, mode=SUSPENDED, warned=True), WARNING)


def give_up(rules: Rules, ranks: Ranks, number: int) -> Iterator[Ranks]:
    """Yield the ranks after one gave up: its messages are under way, or lost."""
    rank = ranks[number]
    for inside in {rank.inside, False}:
        gone = replace(rank, mode=GONE, inside=inside)
        yield tell(ranks, number, gone, LAST if rank.mode in rules.warns else "")


def hear(rules: Rules, ranks: Ranks, number: int) -> Ranks:
    """Return the ranks after one received its oldest warning."""
    warning, *others = ranks[number].inbox
    rank = replace(ranks[number], inbox=tuple(others))
    if warning == LAST:
        return tell(ranks, number, replace(rank, mode=GONE), LAST if rules.passes_on else "")
    if rank.mode == RUNS:
        return suspend(ranks, number, replace(rank, heard=True))
    return tell(ranks, number, replace(rank, heard=rank.mode == SUSPENDED or rules.keeps))


def end(ranks: Ranks, number: int) -> Ranks:
    """Return the ranks after an operation ended on one."""
    rank = ranks[number]
    after = replace(rank, place=rank.place + 1, inside=False)
    if rank.place % ROUND == COMPARISON:
        return tell(ranks, number, replace(after, mode=GLOO, warned=False, heard=False))
    if rank.place % ROUND != RETURN:
        return tell(ranks, number, after)
    after = replace(after, mode=RUNS)
    return suspend(ranks, number, after) if after.heard else tell(ranks, number, after)
