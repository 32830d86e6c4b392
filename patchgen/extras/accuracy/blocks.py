"""Cuts of a tensor: memory is bounded by the size of a block, not of the tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_VALUES = 2**22  # of all workers together in a block
_LEAST = 2**12  # elements


class Block(NamedTuple):
    """Elements from `begin` to `end` of a tensor, all in the same one of its ranges."""

    begin: int
    end: int
    part: int
    """The index of the range."""


def limit(workers: int) -> int:
    """Elements of a block for so many workers."""
    return max(_VALUES // workers, _LEAST)


def cut(ranges: Iterable[range], unit: int, most: int) -> Iterator[Block]:
    """Cuts ranges into blocks that begin at a multiple of `unit` from their range's begin.

    Args:
        ranges: of elements, ascending.
        unit: elements that are not separated, except at the end of a range.
        most: elements of a block, if that is at least one unit.
    """
    step = max(most // unit, 1) * unit
    for part, elements in enumerate(ranges):
        for begin in elements[::step]:
            yield Block(begin, min(begin + step, elements.stop), part)


def shares(numel: int, parts: int) -> Iterator[range]:
    """Ranges for so many parts, in order; the first ones are an element longer."""
    begin = 0
    for part in range(parts):
        end = begin + numel // parts + (part < numel % parts)
        yield range(begin, end)
        begin = end
