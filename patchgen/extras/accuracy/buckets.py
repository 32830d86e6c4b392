"""Bucketed max-min quantization, as gradient-compression backends such as CGX use it.

A bucket is sent as its minimum, its unit (maximum - minimum) / (2^bits - 1), and for each value the
level floor((value - minimum) / unit + r) in so many bits, where r is 1/2, or uniform in [0, 1). The
receiver takes minimum + unit * level.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from patchgen.extras.accuracy import methods
from patchgen.system.tables import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from patchgen.extras.accuracy.methods import Block

MOST_BITS = 8

_VECTOR = 4  # elements that a chunk is a multiple of
_META_BITS = 64  # minimum and unit of a bucket
_LEAST_UNIT = np.float32(1e-10)  # below it, every value of a bucket becomes the minimum


@dataclass(frozen=True)
class Buckets:
    """Sums of workers that quantize what they send.

    With `requantize` as in a scatter-reduce-allgather: each worker owns a chunk of the tensor, adds
    what the others send of it to its own exact values, and sends the quantized sum to all. Without,
    all workers send the whole tensor to all, and the sum is not quantized.
    """

    workers: int
    levels_bits: int
    bucket_numel: int = 512
    skip_incomplete: bool = False
    requantize: bool = True
    stochastic: bool = False
    seed: int = 0

    @property
    def name(self) -> str:
        """Name of the method in tables."""
        return f"CGX, {counted(self.levels_bits, 'bit')}"

    def chunks(self, numel: int) -> Iterator[range]:
        """Range of elements that each worker owns: equal shares, rounded up to whole vectors."""
        if not self.requantize:
            yield range(numel)
            return
        begin = 0
        for left in range(self.workers, 0, -1):
            share = (numel - begin) // left
            end = min(begin + -(-share // _VECTOR) * _VECTOR, numel)
            yield range(begin, end)
            begin = end

    def bits(self, numel: int) -> float:
        """Bits of an element as it is sent, with its share of minima and units."""
        total = 0
        for chunk in self.chunks(numel):
            whole, rest = divmod(len(chunk), self.bucket_numel)
            total += whole * (_META_BITS + self.levels_bits * self.bucket_numel)
            if rest:
                alone = 32 * rest
                total += alone if self.skip_incomplete else _META_BITS + self.levels_bits * rest
        return total / numel

    def sent(self, numel: int) -> float:
        """Bits that a worker sends for each element."""
        others = self.workers - 1
        return self.bits(numel) * (2 * others / self.workers if self.requantize else others)

    def blocks(self, numel: int, most: int) -> Iterator[Block]:
        """Whole buckets of one chunk."""
        return methods.cut(self.chunks(numel), self.bucket_numel, most)

    def sum(self, values: NDArray[np.float32], block: Block) -> NDArray[np.float32]:
        """Bucket by bucket; the block's part is the rank of its owner."""
        random = np.random.default_rng([self.seed, self.levels_bits, block.begin])
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            if not self.requantize:
                total = self._received(values[0], random)
                for row in values[1:]:
                    total += self._received(row, random)
                return total
            total = values[block.part].copy()
            for worker, row in enumerate(values):
                if worker != block.part:
                    total += self._received(row, random)
            return self._received(total, random)

    def _received(
        self, values: NDArray[np.float32], random: np.random.Generator
    ) -> NDArray[np.float32]:
        """Values as they arrive after being sent in levels, float32 [numel]."""
        whole = len(values) - len(values) % self.bucket_numel
        result = values.copy()
        full = self._quantized(values[:whole].reshape(-1, self.bucket_numel), random)
        result[:whole] = full.reshape(-1)
        if whole < len(values) and not self.skip_incomplete:
            result[whole:] = self._quantized(values[np.newaxis, whole:], random)[0]
        return result

    def _quantized(
        self, values: NDArray[np.float32], random: np.random.Generator
    ) -> NDArray[np.float32]:
        """Rounds buckets, float32 [buckets, numel]. A bucket that holds inf or NaN becomes NaN."""
        highest = np.float32(2**self.levels_bits - 1)
        least = values.min(axis=1, keepdims=True)
        unit = (values.max(axis=1, keepdims=True) - least) / highest
        level: NDArray[np.float32] = (values - least) / unit
        level += random.random(level.shape, np.float32) if self.stochastic else np.float32(0.5)
        np.minimum(np.floor(level, out=level), highest, out=level)
        np.copyto(level, 0, where=unit < _LEAST_UNIT)
        level *= unit
        level += least
        return level
