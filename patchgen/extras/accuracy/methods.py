"""Methods of summing that are compared, block by block, so that memory use is bounded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_VALUES = 2**22  # values of all workers in a block
_LEAST = 2**12  # elements


class Block(NamedTuple):
    """Elements from `begin` to `end` of a tensor."""

    begin: int
    end: int


def limit(workers: int) -> int:
    """Return the largest number of elements of a block for this number of workers."""
    return max(_VALUES // workers, _LEAST)


def cut(ranges: Iterable[range], unit: int, most: int) -> Iterator[Block]:
    """Cut ranges into blocks that begin at a multiple of `unit` from the begin of their range.

    Args:
        ranges: ranges of elements, ascending.
        unit: number of elements that stay together, except at the end of a range.
        most: largest number of elements of a block, if that is at least one unit.
    """
    step = max(most // unit, 1) * unit
    for elements in ranges:
        for begin in elements[::step]:
            yield Block(begin, min(begin + step, elements.stop))


def shares(numel: int, parts: int) -> Iterator[range]:
    """Yield ranges for this number of parts. The first ranges may be an element longer."""
    begin = 0
    for part in range(parts):
        end = begin + numel // parts + (part < numel % parts)
        yield range(begin, end)
        begin = end


@dataclass(frozen=True)
class Float32:
    """Plain float32, added in the order of the ranks."""

    workers: int

    name = "float32"
    bits = 32.0

    @property
    def sent(self) -> float:
        """Bits that a worker sends for each element in a ring: all but one part twice."""
        return self.bits * 2 * (self.workers - 1) / self.workers

    def blocks(self, numel: int, most: int) -> Iterator[Block]:
        """Yield blocks of any size up to `most`."""
        return cut([range(numel)], 1, most)

    def sum(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Add the tensors rank by rank."""
        with np.errstate(invalid="ignore", over="ignore"):
            total: NDArray[np.float32] = values[0].copy()
            for row in values[1:]:
                total += row
        return total
