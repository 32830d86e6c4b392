"""Search of all states that a model can reach."""

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
