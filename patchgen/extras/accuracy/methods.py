"""Ways to sum that are compared, block by block of a tensor.

So memory is bounded by the size of a block, not of the tensor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_VALUES = 2**22  # of all workers together in a block
_LEAST = 2**12  # elements


class Block(NamedTuple):
    """Elements from `begin` to `end` of a tensor."""

    begin: int
    end: int


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
    for elements in ranges:
        for begin in elements[::step]:
            yield Block(begin, min(begin + step, elements.stop))


def shares(numel: int, parts: int) -> Iterator[range]:
    """Ranges for so many parts, in order; the first ones are an element longer."""
    begin = 0
    for part in range(parts):
        end = begin + numel // parts + (part < numel % parts)
        yield range(begin, end)
        begin = end


class Method(Protocol):
    """Sums tensors block by block; every block stands for itself."""

    @property
    def name(self) -> str:
        """Name of the method in tables."""

    @property
    def bits(self) -> float:
        """Bits of an element as it is sent, without packet headers."""

    @property
    def sent(self) -> float:
        """Bits that a worker sends for each element in the whole allreduce."""

    def blocks(self, numel: int, most: int) -> Iterator[Block]:
        """Ascending blocks without a gap, of at most `most` elements where the method allows."""

    def sum(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """The sums of one block over the workers, from float32 [workers, numel] to [numel]."""


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
        """Yields blocks of any size up to `most`."""
        return cut([range(numel)], 1, most)

    def sum(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Rank by rank."""
        with np.errstate(invalid="ignore", over="ignore"):
            total: NDArray[np.float32] = values[0].copy()
            for row in values[1:]:
                total += row
        return total
