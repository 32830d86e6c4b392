"""Methods of summing that are compared, block by block, so that memory use is bounded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def cut(ranges: Iterable[range], unit: int, most: int) -> Iterator[range]:
    """Cut ranges into blocks that begin at a multiple of `unit` from the begin of their range.

    Args:
        ranges: ranges of elements, ascending.
        unit: number of elements that stay together, except at the end of a range.
        most: largest number of elements of a block, if that is at least one unit.
    """
    step = max(most // unit, 1) * unit
    for elements in ranges:
        yield from (elements[begin : begin + step] for begin in range(0, len(elements), step))


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

    def blocks(self, numel: int, most: int) -> Iterator[range]:
        """Yield blocks of any size up to `most`."""
        return cut([range(numel)], 1, most)

    def sum(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Add the tensors rank by rank."""
        with np.errstate(invalid="ignore", over="ignore"):
            total: NDArray[np.float32] = values[0].copy()
            for row in values[1:]:
                total += row
        return total
