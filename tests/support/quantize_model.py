"""Sums in fewer bits, written from the description of the scheme in docs/compression.md.

A second implementation, with numpy: the delegate's results are compared with it bit for bit. No
library has the same scheme, and torch's own quantization rounds and scales in another way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:  # the numpy of Debian 11, beside the oldest torches, has no types
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

INFINITY = 0x7F800000
HUGE, TINY = np.float32(2.0**64), np.float32(2.0**-64)


@dataclass(frozen=True)
class Model:
    """Parameters by which a layer is sent."""

    bits: int
    ranks: int
    bucket: int
    stochastic: bool = False

    @property
    def lane(self) -> int:
        """Bits of a lane: the largest sum of levels must fit."""
        return self.bits + math.ceil(math.log2(self.ranks))

    @property
    def lanes(self) -> int:
        return 32 // self.lane

    @property
    def highest(self) -> int:
        return max(1, (1 << self.bits - 1) - 1)

    @property
    def step(self) -> int:
        return 2 if self.bits == 1 else 1

    def cut(self, numel: int) -> list[slice]:
        """Return the buckets of a layer."""
        return [
            slice(begin, min(begin + self.bucket, numel)) for begin in range(0, numel, self.bucket)
        ]

    def scales(self, values: Floats) -> NDArray[np.int32]:
        """Return the scales of one rank's buckets."""
        with np.errstate(over="ignore", invalid="ignore"):
            found = [self._scale(values[part]) for part in self.cut(len(values))]
        return np.array(found, np.float32).view(np.int32) & 0x7FFFFFFF

    def _scale(self, values: Floats) -> np.float32:
        if self.bits > 1 or self.stochastic:
            magnitude = values.view(np.int32) & 0x7FFFFFFF
            largest: np.float32 = magnitude.max().astype(np.int32).view(np.float32)
            return largest
        sums = [np.float64(0)] * 8
        for place in range(0, len(values), 8):
            for lane, value in enumerate(values[place : place + 8]):
                sums[lane] += abs(np.float64(value))
        total = np.float64(0)
        for part in sums:
            total += part
        return np.float32(total / len(values))

    def levels(
        self, values: Floats, scale: int, key: int
    ) -> tuple[NDArray[np.uint32], Floats] | None:
        """Return the levels of a bucket and their residuals; None if it cannot be sent."""
        if scale == 0 or scale >= INFINITY:
            return None
        up, scaled = self._scaled(scale)
        highest = np.float32(self.highest)
        units = (values * up).astype(np.float32) * np.float32(highest / scaled)
        if self.stochastic:
            units = units + random(key, len(values)) * np.float32(self.step)
        if self.bits == 1:
            level = (units >= 0).astype(np.int64)
        else:
            level = np.rint(np.clip(units, -highest, highest)).astype(np.int64) + self.highest
        unit = np.float32(scaled / highest)
        with np.errstate(over="ignore"):
            sent = (level * self.step - self.highest).astype(np.float32) * unit / up
        return level.astype(np.uint32), (values - sent).astype(np.float32)

    @staticmethod
    def _scaled(scale: int) -> tuple[np.float32, np.float32]:
        as_float = np.int32(scale).view(np.float32)
        up = HUGE if as_float < TINY else np.float32(1)
        return up, as_float * up

    def words(self, levels: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Return words that hold the levels of a bucket."""
        width = -(-len(levels) // self.lanes)
        lane, word = np.divmod(np.arange(len(levels)), width)
        words = np.zeros(width, np.uint64)
        np.add.at(words, word, levels.astype(np.uint64) << (lane * self.lane).astype(np.uint64))
        return words.astype(np.uint32)

    def decoded(self, words: NDArray[np.uint32], scale: int, numel: int, divisor: int) -> Floats:
        """Return the sums of a bucket, divided."""
        if scale >= INFINITY:
            return np.full(numel, np.nan, np.float32)
        if scale == 0:
            return np.zeros(numel, np.float32)
        width = -(-numel // self.lanes)
        up, scaled = self._scaled(scale)
        unit = np.float32(scaled / np.float32(self.highest * divisor))
        lane, word = np.divmod(np.arange(numel), width)
        levels = words.astype(np.int64)[word] >> (lane * self.lane) & (2**self.lane - 1)
        multiples = (levels * self.step - self.ranks * self.highest).astype(np.float32)
        with np.errstate(over="ignore"):
            result: Floats = multiples * unit / up
        return result


def random(key: int, numel: int) -> Floats:
    """Return numbers between -1/2 and 1/2, for each place in a bucket."""
    low, high = np.uint32(key % 2**32), np.uint32(key >> 32)
    with np.errstate(over="ignore"):
        x = np.arange(numel, dtype=np.uint32) + low
        x = (x ^ (x >> np.uint32(16))) * np.uint32(0x85EBCA6B) ^ high
        x = (x ^ (x >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    drawn = ((x ^ (x >> np.uint32(16))) >> np.uint32(9)).astype(np.float64)
    return ((drawn - 2**22 + 0.5) / 2**23).astype(np.float32)


def bucket_key(key: int, bucket: int) -> int:
    x = (key + bucket * 0x9E3779B97F4A7C15) % 2**64
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
    return x ^ x >> 31


@dataclass(frozen=True)
class Summed:
    scales: NDArray[np.int32]
    words: NDArray[np.uint32]
    values: Floats
    kept: Floats


def allreduce(
    model: Model, values: Floats, divisor: int, key: int, *, halve: bool = False
) -> Summed:
    """Sum the values of all ranks, [ranks, numel]; rank r has the key `key + r`.

    With `halve` the scales are half of what was agreed on: values are beyond them.
    """
    scales = np.max([model.scales(row) for row in values], axis=0).astype(np.int32)
    scales -= halve << 23
    kept = np.zeros_like(values)
    words, decoded = [], []
    for bucket, part in enumerate(model.cut(values.shape[1])):
        scale, numel = int(scales[bucket]), part.stop - part.start
        total = np.zeros(-(-numel // model.lanes), np.uint32)
        for rank, row in enumerate(values):
            sent = model.levels(row[part], scale, bucket_key(key + rank, bucket))
            if sent is not None:
                total += model.words(sent[0])
                kept[rank, part] = sent[1]
        words.append(total)
        decoded.append(model.decoded(total, scale, numel, divisor))
    return Summed(scales, np.concatenate(words), np.concatenate(decoded), kept)
