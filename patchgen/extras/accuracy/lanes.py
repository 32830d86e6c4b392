"""Sums in fewer bits, as `quantized_hook` of the plugin makes them.

All workers round by the same scale of a bucket, and the packed levels are summed without another
rounding. docs/compression.md has the scheme.
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

_WORD = 32  # bits
_TINY, _UP = np.float32(2.0**-64), np.float32(2.0**64)


@dataclass(frozen=True)
class Lanes:
    """Sums of workers that agree on a scale for each bucket, round once, and pack."""

    workers: int
    levels_bits: int
    bucket_numel: int = 512
    stochastic: bool = False
    seed: int = 0

    @property
    def name(self) -> str:
        """Name of the method in tables."""
        return f"SwitchML, {counted(self.levels_bits, 'bit')}"

    @property
    def lanes(self) -> int:
        """Values in a word, which has room for the sums of their levels."""
        return _WORD // (self.levels_bits + (self.workers - 1).bit_length())

    def _parts(self, numel: int) -> tuple[int, int]:
        """Bits of the words, and of the scales."""
        whole, rest = divmod(numel, self.bucket_numel)
        words, scales = whole * -(-self.bucket_numel // self.lanes), whole
        if rest:
            words, scales = words + -(-rest // self.lanes), scales + 1
        return words * _WORD, scales * _WORD

    def bits(self, numel: int) -> float:
        """Bits of an element as it is sent, with its share of the scales."""
        return sum(self._parts(numel)) / numel

    def sent(self, numel: int) -> float:
        """Words once, to the switch; scales by Gloo, in a ring."""
        words, scales = self._parts(numel)
        return (words + scales * 2 * (self.workers - 1) / self.workers) / numel

    def blocks(self, numel: int, most: int) -> Iterator[Block]:
        """Whole buckets."""
        return methods.cut([range(numel)], self.bucket_numel, most)

    def sum(self, values: NDArray[np.float32], block: Block) -> NDArray[np.float32]:
        """Bucket by bucket."""
        random = np.random.default_rng([self.seed, self.levels_bits, block.begin])
        numel = values.shape[1]
        whole = numel - numel % self.bucket_numel
        result = np.empty(numel, np.float32)
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            full = values[:, :whole].reshape(self.workers, -1, self.bucket_numel)
            result[:whole] = self._summed(full, random).reshape(-1)
            if whole < numel:
                result[whole:] = self._summed(values[:, np.newaxis, whole:], random)[0]
        return result

    def _summed(
        self, values: NDArray[np.float32], random: np.random.Generator
    ) -> NDArray[np.float32]:
        """Rounds buckets, float32 [workers, buckets, numel]. inf or NaN makes its bucket NaN."""
        highest = np.float32(max(1, 2 ** (self.levels_bits - 1) - 1))
        scale = self._scales(values)
        up = np.where(scale < _TINY, _UP, np.float32(1))
        scaled = scale * up
        total = np.zeros(values.shape[1:], np.float32)
        for row in values:
            units: NDArray[np.float32] = row * up * (highest / scaled)
            total += self._multiples(units, highest, random)
        total *= scaled / highest
        total /= up
        total[scale[:, 0] == 0] = 0
        total[~np.isfinite(scale[:, 0])] = np.nan
        return total

    def _scales(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Float32 [buckets, 1]."""
        if not values.size:
            return np.zeros((0, 1), np.float32)
        magnitudes = np.abs(values)
        if self.levels_bits > 1 or self.stochastic:
            largest: NDArray[np.float32] = magnitudes.max(axis=(0, 2))
        else:
            largest = magnitudes.mean(axis=2, dtype=np.float64).astype(np.float32).max(axis=0)
        return largest[:, np.newaxis]

    def _multiples(
        self, units: NDArray[np.float32], highest: np.float32, random: np.random.Generator
    ) -> NDArray[np.float32]:
        """Rounds values, in units."""
        one_bit = self.levels_bits == 1
        if self.stochastic:
            drawn = random.random(units.shape, np.float32) - np.float32(0.5)
            units = units + (2 * drawn if one_bit else drawn)
        if one_bit:
            return np.where(units >= 0, highest, -highest)
        return np.rint(np.clip(units, -highest, highest))
