"""A model of failover: ranks, their jobs, a failure at any moment, and the sums over Gloo.

1. Jobs have numbers from 0 on. A rank has at most `window` pending jobs, which it finishes in their
   order. No rank finishes a job before all ranks have submitted it.
2. After the failure each rank stops, at a moment of its own. The library of one rank may also not
   take a job: then it matches the next job of this rank with that job of the other ranks.
3. The ranks exchange how many jobs they have finished. The results that a rank has are sent to the
   ranks that lack them, and Gloo sums the other jobs from the inputs.

The search visits all reachable states, so its result holds for every order of events. states.py
says why no model checker is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from support.states import visit


@dataclass(frozen=True)
class Rules:
    """Sizes of the model, and what its ranks keep."""

    ranks: int = 2
    jobs: int = 4
    window: int = 2
    results: int = 2
    """Results that a rank keeps of the jobs that it finished last."""
    apart: bool = True
    """True where the library writes a sum to other memory than that of the input."""
    stops_first: bool = True
    """True where a rank whose library does not take a job stops before it submits another."""


@dataclass(frozen=True)
class Rank:
    """Rank of the model. A job from `finished` to before `submitted` is under way."""

    submitted: int = 0
    finished: int = 0
    touched: tuple[bool, ...] = ()
    """Jobs under way whose memory the library has written to."""
    lost: int | None = None
    """Job that the library has not taken."""
    stopped: bool = False

    mixed: bool = False
    """True where it has finished a job with a sum of another one."""

    def place(self, job: int) -> int | None:
        """Return number of a job in its library."""
        return job if self.lost is None or job < self.lost else job - 1 if job > self.lost else None


@dataclass(frozen=True)
class State:
    """Ranks at one moment."""

    ranks: tuple[Rank, ...]
    failed: bool = False

    def with_rank(self, number: int, rank: Rank) -> State:
        return replace(self, ranks=(*self.ranks[:number], rank, *self.ranks[number + 1 :]))


@dataclass
class Outcome:
    """Result of a search."""

    states: int = 0
    wrong: set[str] = field(default_factory=set)


def search(rules: Rules) -> Outcome:
    """Visit every reachable state; recover from those in which all have stopped."""
    found = Outcome()
    for state, after in visit(State((Rank(),) * rules.ranks), lambda one: steps(rules, one)):
        found.states += 1
        if not after:
            found.wrong.update(problems(rules, state))
    return found


def steps(rules: Rules, state: State) -> Iterator[State]:
    """Yield the states after one more event."""
    if not state.failed:
        yield replace(state, failed=True)
    places = [rank.submitted - (rank.lost is not None) for rank in state.ranks]
    for number, rank in enumerate(state.ranks):
        if rank.stopped:
            continue
        if state.failed:
            yield state.with_rank(number, replace(rank, stopped=True))
        under_way = rank.submitted - rank.finished
        if rank.submitted < rules.jobs and under_way < rules.window:
            yield from submit(rules, state, number)
        for i in range(under_way):
            place = rank.place(rank.finished + i)
            there = place is not None and place < min(places)
            if there and not rank.touched[i]:  # the library has a packet of the sum
                touched = (*rank.touched[:i], True, *rank.touched[i + 1 :])
                yield state.with_rank(number, replace(rank, touched=touched))
        if under_way and rank.touched[0]:
            place = rank.place(rank.finished)
            mixed = any(one.place(rank.finished) != place for one in state.ranks)
            done = replace(
                rank, finished=rank.finished + 1, touched=rank.touched[1:],
                mixed=rank.mixed or mixed,
            )  # fmt: skip
            yield state.with_rank(number, done)


def submit(rules: Rules, state: State, number: int) -> Iterator[State]:
    """Give a job of a rank to its library, which may not take it."""
    rank = state.ranks[number]
    submitted = replace(rank, submitted=rank.submitted + 1, touched=(*rank.touched, False))
    yield state.with_rank(number, submitted)
    if not state.failed:
        lost = replace(submitted, lost=rank.submitted, stopped=rules.stops_first)
        yield replace(state.with_rank(number, lost), failed=True)


def problems(rules: Rules, state: State) -> Iterator[str]:
    """Yield problems of the sums after the failure."""
    low = min(rank.finished for rank in state.ranks)
    high = max(rank.finished for rank in state.ranks)
    if any(rank.mixed for rank in state.ranks):
        yield "a sum of different jobs"
    if high - low > rules.window:
        yield "ranks are further apart than the window"
    for job in range(low, high):
        if not any(rank.finished - rules.results <= job < rank.finished for rank in state.ranks):
            yield "a result that one rank returned is lost to the others"
    for job in range(high, rules.jobs):
        for rank in state.ranks:
            if job < rank.submitted and rank.touched[job - rank.finished] and not rules.apart:
                yield "a sum of mixed inputs"
