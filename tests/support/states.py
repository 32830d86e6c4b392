"""Search of all states that a model can reach.

The models of failover, return and warnings are small enough to visit every reachable state, so what
they show holds for every order of events. hypothesis would try some of these orders. TLC and SPIN
visit all of them, but are programs and languages of their own, which neither every developer nor
every Python of `make test-pythons` has; a model here is a function that yields the next states, and
tests switch off one rule of it at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

State = TypeVar("State")


def visit(
    first: State, follow: Callable[[State], Iterable[State]]
) -> Iterator[tuple[State, list[State]]]:
    """Visit every state once, from the first one on; yield it with those after one more event."""
    seen, left = {first}, [first]
    while left:
        state = left.pop()
        after = list(follow(state))
        yield state, after
        for one in after:
            if one not in seen:
                seen.add(one)
                left.append(one)
