"""Search of all states that a model can reach."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

State = TypeVar("State")


def visit(
    first: State, follow: Callable[[State], Iterable[State]]
) -> Iterator[tuple[State, list[State]]]:
    """Visit every state once; yield it with its successors.

    Args:
        first: the state in which all begins. States are hashable.
        follow: states after one more event; none where a state ends.
    """
    seen, left = {first}, [first]
    while left:
        state = left.pop()
        after = list(follow(state))
        yield state, after
        for one in after:
            if one not in seen:
                seen.add(one)
                left.append(one)
