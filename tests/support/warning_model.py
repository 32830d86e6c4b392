"""A model of warnings: how the ranks of a ring learn that a rank has failed or aborted.

1. A rank that fails, or is warned, warns its successor in the ring.
2. A rank that has warned its successor and was warned compares its progress with all ranks, and
   sums over Gloo.
3. The ranks sum a job over Gloo, then use their switch again, which may fail again.

A comparison, a sum and a return are operations of all ranks. Each ends on a rank, at a moment of
its own, when all ranks have begun it.

A rank may abort at any moment. It sends a final warning. A rank that receives it forwards it, and
ends. The warnings of a rank arrive in their order.

The search visits all reachable states, so its result holds for every order of events. states.py
says why no model checker is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from support.states import visit

RUNS, SUSPENDED, GLOO, GONE = "runs", "suspended", "gloo", "gone"
WARNING, FINAL = "warning", "final"
COMPARISON, RETURN, ROUND = 0, 2, 3  # operations after a failure, of which the sum is another


@dataclass(frozen=True)
class Rules:
    """Sizes of the model, and what its ranks do."""

    ranks: int = 2
    failures: int = 2
    """Failures of the switch, one after another."""
    notice: int = 1
    """Ranks that notice it by themselves."""
    aborts: bool = True
    """True if a rank may abort."""
    warns: tuple[str, ...] = (RUNS, SUSPENDED, GLOO)
    """Modes in which a rank that aborts sends a final warning."""
    receives: tuple[str, ...] = (RUNS, SUSPENDED, GLOO)
    """Modes in which a rank receives warnings."""
    forwards: bool = True
    """True if a rank forwards a final warning."""
    keeps: bool = True
    """True if a rank acts, after its return, on a warning that came before it."""


@dataclass(frozen=True)
class Rank:
    """Rank of the model."""

    mode: str = RUNS
    warned: bool = False
    """True once it has warned its successor of the newest failure."""
    received: bool = False
    """True once its predecessor has warned it of the newest failure."""
    place: int = 0
    """Operations that have ended."""
    inside: bool = False
    """True if it has begun the next operation."""
    inbox: tuple[str, ...] = ()
    """Warnings that it has not received yet."""


Ranks = tuple[Rank, ...]


@dataclass
class Outcome:
    """Result of a search."""

    states: int = 0
    ends: set[tuple[str, ...]] = field(default_factory=set)
    """Modes of the ranks in the states without a next event."""
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
        if rules.aborts and all(one.mode != GONE for one in ranks):
            yield from abort(rules, ranks, number)
        if rank.inbox and rank.mode in rules.receives:
            yield receive(rules, ranks, number)
        if rank.mode == RUNS:
            if number < rules.notice and rank.place < rules.failures * ROUND:
                yield suspend(ranks, number, rank)
        elif rank.inside:
            if all((one.place, one.inside) >= (rank.place, True) for one in ranks):
                yield end(ranks, number)
        elif rank.mode == GLOO or (rank.warned and rank.received):
            yield changed(ranks, number, replace(rank, inside=True))


def changed(ranks: Ranks, number: int, rank: Rank, warning: str = "") -> Ranks:
    """Return the ranks with a new value of one, and with its warning to its successor."""
    after = list(ranks)
    after[number] = rank
    if warning:
        to = (number + 1) % len(ranks)
        after[to] = replace(after[to], inbox=(*after[to].inbox, warning))
    return tuple(after)


def suspend(ranks: Ranks, number: int, rank: Rank) -> Ranks:
    """Return the ranks after a running one failed or was warned: it warns its successor."""
    return changed(ranks, number, replace(rank, mode=SUSPENDED, warned=True), WARNING)


def abort(rules: Rules, ranks: Ranks, number: int) -> Iterator[Ranks]:
    """Yield the ranks after one aborted: the messages of its operation arrive, or are lost."""
    rank = ranks[number]
    for inside in {rank.inside, False}:
        gone = replace(rank, mode=GONE, inside=inside)
        yield changed(ranks, number, gone, FINAL if rank.mode in rules.warns else "")


def receive(rules: Rules, ranks: Ranks, number: int) -> Ranks:
    """Return the ranks after one received its oldest warning."""
    warning, *others = ranks[number].inbox
    rank = replace(ranks[number], inbox=tuple(others))
    if warning == FINAL:
        return changed(ranks, number, replace(rank, mode=GONE), FINAL if rules.forwards else "")
    if rank.mode == RUNS:
        return suspend(ranks, number, replace(rank, received=True))
    return changed(ranks, number, replace(rank, received=rank.mode == SUSPENDED or rules.keeps))


def end(ranks: Ranks, number: int) -> Ranks:
    """Return the ranks after an operation ended on one."""
    rank = ranks[number]
    after = replace(rank, place=rank.place + 1, inside=False)
    if rank.place % ROUND == COMPARISON:
        return changed(ranks, number, replace(after, mode=GLOO, warned=False, received=False))
    if rank.place % ROUND != RETURN:
        return changed(ranks, number, after)
    after = replace(after, mode=RUNS)
    return suspend(ranks, number, after) if after.received else changed(ranks, number, after)
