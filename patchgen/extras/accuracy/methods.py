"""The ways to sum that are compared, alike to those who measure them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from patchgen.extras.accuracy import blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from patchgen.extras.accuracy.blocks import Block


class Method(Protocol):
    """Sums tensors block by block; every block stands for itself."""

    @property
    def name(self) -> str:
        """Name of the method in tables."""

    def bits(self, numel: int) -> float:
        """Bits of an element as it is sent, in a tensor of `numel`, without packet headers."""

    def sent(self, numel: int) -> float:
        """Bits that a worker sends for each element in the whole allreduce."""

    def blocks(self, numel: int, most: int) -> Iterator[Block]:
        """Ascending blocks without a gap, of at most `most` elements where the method allows."""

    def sum(self, values: NDArray[np.float32], block: Block) -> NDArray[np.float32]:
        """The sums of one block over the workers, from float32 [workers, numel] to [numel]."""


@dataclass(frozen=True)
class Float32:
    """Plain float32, added in the order of the ranks."""

    workers: int

    name = "float32"

    def bits(self, numel: int) -> float:  # noqa: ARG002  # as of all methods
        """Bits of a float32."""
        return 32

    def sent(self, numel: int) -> float:
        """Bits that a worker sends for each element in a ring: all but one part twice."""
        return self.bits(numel) * 2 * (self.workers - 1) / self.workers

    def blocks(self, numel: int, most: int) -> Iterator[Block]:
        """Yields blocks of any size up to `most`."""
        return blocks.cut([range(numel)], 1, most)

    def sum(self, values: NDArray[np.float32], block: Block) -> NDArray[np.float32]:  # noqa: ARG002
        """Rank by rank."""
        with np.errstate(invalid="ignore", over="ignore"):
            total: NDArray[np.float32] = values[0].copy()
            for row in values[1:]:
                total += row
        return total
