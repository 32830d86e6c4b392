"""A model of return: ranks that sum over Gloo use their switch again, between two of their jobs.

1. A rank does its jobs with the library or, after a failure, over Gloo together with all ranks.
2. A resume attempt, at a job that follows from the failure, has three steps: the context has
   stopped; it starts anew; the sums of a pattern are right. A step ends when all ranks took it.
3. If all ranks complete the steps, they use the library again from that job on, in a new session.

Any session may fail at any moment, any context may refuse to start, and a context stops some time
after its failure.

The ranks do one operation over Gloo at a time, so ranks at different operations mix their messages.
The search visits all reachable states, so its result holds for every order of events. states.py
says why no model checker is used.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from support.states import visit

LIBRARY, SUSPENDED, GLOO = "library", "suspended", "gloo"


@dataclass(frozen=True)
class Rules:
    """Sizes of the model, and what its ranks agree on."""

    ranks: int = 2
    jobs: int = 4
    window: int = 2
    failures: int = 2
    """Sessions that fail."""
    tried: tuple[int, ...] = (1, 2)
    """Jobs after a failure at which a resume attempt begins."""
    counts_from_all: bool = True
    """True if jobs are counted from the first one that no rank has finished."""
    waits_for_stop: bool = True
    """True if a context starts only when those of all ranks have stopped."""
    waits_for_sums: bool = True
    """True if a rank attempts to resume only when its callers have the sums of all earlier jobs."""
    agrees: bool = True
    """True if a rank returns only if all ranks can."""


@dataclass(frozen=True)
class Rank:
    """Rank of the model."""

    mode: str = LIBRARY
    session: int = 0
    submitted: int = 0
    """Jobs that it has submitted to the library, or has done over Gloo."""
    sums: tuple[str, ...] = ()
    """Way in which each job was summed whose sum the rank has."""
    owed: int = 0
    """Sums, the last of these, that its callers have not taken yet."""
    alive: bool = True
    """True until the context of its session has stopped."""
    since: int = 0
    """First job after the failure."""
    attempts: int = 0
    """Resume attempts since then."""


@dataclass(frozen=True)
class State:
    """Ranks at one moment."""

    ranks: tuple[Rank, ...]
    failed: int = 0
    """Sessions that have failed; the newest one has if it is not larger."""
    wrong: str = ""

    def with_rank(self, number: int, **changes: object) -> State:
        rank = replace(self.ranks[number], **changes)  # type: ignore[arg-type]
        return replace(self, ranks=(*self.ranks[:number], rank, *self.ranks[number + 1 :]))


@dataclass
class Outcome:
    """Result of a search."""

    states: int = 0
    returns: int = 0
    """States in which all ranks have just returned."""
    wrong: set[str] = field(default_factory=set)


def search(rules: Rules) -> Outcome:
    """Visit every reachable state."""

    def follow(state: State) -> Iterator[State]:
        return iter(()) if state.wrong else steps(rules, state)

    found = Outcome()
    for state, after in visit(State((Rank(),) * rules.ranks), follow):
        found.states += 1
        found.returns += all(rank.session and rank.mode == LIBRARY for rank in state.ranks)
        if state.wrong:
            found.wrong.add(state.wrong)
        elif not after:
            found.wrong.update(problems(rules, state))
    return found


def problems(rules: Rules, state: State) -> Iterator[str]:
    """Yield problems of a state in which nothing happens any more."""
    if any(len(rank.sums) < rules.jobs for rank in state.ranks):
        yield "ranks wait for ever"
    elif len({rank.sums for rank in state.ranks}) > 1:
        yield "ranks have other sums"


def steps(rules: Rules, state: State) -> Iterator[State]:
    """Yield the states after one more event."""
    newest = max(rank.session for rank in state.ranks)
    if state.failed <= newest < rules.failures:
        yield replace(state, failed=newest + 1)
    for number, rank in enumerate(state.ranks):
        if rank.owed:
            yield state.with_rank(number, owed=rank.owed - 1)
        if rank.mode == LIBRARY:
            yield from use_library(rules, state, number)
        elif rank.alive:
            yield state.with_rank(number, alive=False)
        attempts_now = rank.mode == GLOO and attempts_next(rules, rank)
        if attempts_now and not rank.alive and not rules.waits_for_stop:
            yield from start(rules, state, [number])
    modes = {rank.mode for rank in state.ranks}
    if modes == {SUSPENDED}:
        yield recover(rules, state)
    elif modes == {GLOO}:
        yield from go_over_gloo(rules, state)


def use_library(rules: Rules, state: State, number: int) -> Iterator[State]:
    """Yield states after a job is submitted, a sum arrives, or a failure is noticed."""
    rank = state.ranks[number]
    if rank.submitted < rules.jobs and rank.submitted - len(rank.sums) < rules.window:
        yield state.with_rank(number, submitted=rank.submitted + 1)
    job = len(rank.sums)
    there = all(
        one.session > rank.session or (one.session == rank.session and one.submitted > job)
        for one in state.ranks
    )
    if job < rank.submitted and there:
        yield state.with_rank(number, sums=(*rank.sums, f"session {rank.session}"))
    if state.failed > rank.session:
        if rank.owed:  # a caller that still waits for a sum of Gloo takes this for a failure of its
            yield replace(state, wrong="a job of the old session ends the new one")
        yield state.with_rank(number, mode=SUSPENDED)


def recover(rules: Rules, state: State) -> State:
    """Return the state after ranks passed on their sums; other jobs use Gloo."""
    longest = max((rank.sums for rank in state.ranks), key=len)
    ranks = tuple(
        replace(
            rank, mode=GLOO, sums=longest, submitted=len(longest), attempts=0,
            owed=rank.owed + len(longest) - len(rank.sums),
            since=len(longest if rules.counts_from_all else rank.sums),
        )
        for rank in state.ranks
    )  # fmt: skip
    return replace(state, ranks=ranks)


def attempts_next(rules: Rules, rank: Rank) -> bool:
    """Return whether the rank's next operation over Gloo is an attempt to return."""
    number = rank.attempts
    return number < len(rules.tried) and len(rank.sums) >= rank.since + rules.tried[number]


def go_over_gloo(rules: Rules, state: State) -> Iterator[State]:
    """Yield the state after the next operation, if it is the same on all ranks."""
    places = {(attempts_next(rules, rank), len(rank.sums)) for rank in state.ranks}
    if len(places) > 1:
        yield replace(state, wrong="ranks mix operations")
        return
    ((attempting, job),) = places
    if not attempting:
        if job < rules.jobs:
            ranks = (
                replace(rank, sums=(*rank.sums, "gloo"), submitted=job + 1) for rank in state.ranks
            )
            yield replace(state, ranks=tuple(ranks))
    elif not rules.waits_for_sums or not any(rank.owed for rank in state.ranks):
        if rules.waits_for_stop and any(rank.alive for rank in state.ranks):
            ranks = (replace(rank, attempts=rank.attempts + 1) for rank in state.ranks)
            yield replace(state, ranks=tuple(ranks))
        else:
            yield from start(rules, state, range(len(state.ranks)))


def start(rules: Rules, state: State, numbers: range | list[int]) -> Iterator[State]:
    """Yield states after these ranks' contexts start anew, or refuse to."""
    others = [rank for i, rank in enumerate(state.ranks) if i not in numbers or rank.alive]
    if any(rank.alive and rank.mode != LIBRARY for rank in others):
        yield replace(state, wrong="a packet of the old session reaches the new one")
        return
    if len(numbers) < len(state.ranks):
        return
    session = state.ranks[0].session + 1
    for started in itertools.product((True, False), repeat=len(state.ranks)):
        ranks = []
        for rank, own in zip(state.ranks, started):
            returns = all(started) if rules.agrees else own
            mode, now = (LIBRARY, session) if returns else (GLOO, rank.session)
            ranks.append(
                replace(rank, mode=mode, session=now, alive=own, attempts=rank.attempts + 1)
            )
        yield replace(state, ranks=tuple(ranks))
