"""SwitchML's fixed point, bit for bit as the simulator computes it.

A packet has one exponent e, the least with |v| < 2^e for all values of all workers, and one factor
INT32_MAX / (workers * 2^e) as float32. Workers send their values times the factor, rounded half
away from zero. The result is the int32 sum divided by the factor.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from patchgen.extras.accuracy import methods

if TYPE_CHECKING:
    from numpy.typing import NDArray

INT32_MAX = 2**31 - 1

_EXPONENT_BITS = 16  # of a packet's exponent
_FLOAT32_MAX = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class FixedPoint:
    """Sum as a job with these values in its switchml.cfg computes it."""

    workers: int
    packet_numel: int = 256
    threads: int = 4

    name = "SwitchML"

    @property
    def bits(self) -> float:
        """Bits of an element as sent, with its share of the packet's exponent."""
        return 32 + _EXPONENT_BITS / self.packet_numel

    @property
    def sent(self) -> float:
        """Bits that a worker sends for each element: once, to the switch."""
        return self.bits

    def blocks(self, numel: int, most: int) -> Iterator[range]:
        """Yield blocks of whole packets. Each thread cuts its contiguous share into packets."""
        return methods.cut(methods.shares(numel, self.threads), self.packet_numel, most)

    def sum(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Sum each packet with its own exponent."""
        numel = values.shape[1]
        whole = numel - numel % self.packet_numel
        result = np.empty(numel, np.float32)
        if whole:
            packets = values[:, :whole].reshape(self.workers, -1, self.packet_numel)
            result[:whole] = sum_packets(packets).reshape(-1)
        if whole < numel:
            result[whole:] = sum_packets(values[:, np.newaxis, whole:])[0]
        return result


def sum_packets(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Sum packets over the workers.

    Args:
        values: float32 [workers, packets, elements of a packet].

    Returns:
        float32 [packets, elements of a packet]. Packets with inf or NaN are NaN. Packets whose
            factor exceeds float32, because every |v| is tiny, are 0.
    """
    workers = len(values)
    field = _largest(values) >> np.uint32(23)
    finite = field < np.uint32(255)
    factor = _factor(field, workers)
    limit = float(INT32_MAX // workers)  # only reached with more than 255 workers
    total = np.zeros(values.shape[1:], np.int32)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        for row in values:
            scaled = (row * factor).astype(np.float64)
            rounded = np.trunc(scaled + np.copysign(0.5, scaled))
            total += np.clip(rounded, -limit, limit).astype(np.int32)
        result = total.astype(np.float32) / factor
    result[factor[:, 0] == 0] = 0
    result[~finite] = np.nan
    return result


def _largest(values: NDArray[np.float32]) -> NDArray[np.uint32]:
    """Return the bits of the largest magnitude in each packet; they order as the magnitudes."""
    largest = np.zeros(values.shape[1], np.uint32)
    for row in values:
        np.maximum(largest, (row.view(np.uint32) & np.uint32(0x7FFFFFFF)).max(axis=1), out=largest)
    return largest


def _factor(field: NDArray[np.uint32], workers: int) -> NDArray[np.float32]:
    """Return float32 [packets, 1]; 0 where the factor exceeds float32."""
    exponent = field.astype(np.int32) - 126
    factor = INT32_MAX / (workers * np.ldexp(1.0, exponent))
    within = np.where(factor <= _FLOAT32_MAX, factor, 0.0)
    return within.astype(np.float32)[:, np.newaxis]


def may_overflow(workers: int) -> bool:
    """Return whether the real library's workers may send values whose sum overflows int32.

    They round the factor to float32, the product of a value and the factor to float32, and that to
    an integer, without clamping. The worst case is the largest value below 2^e on every worker, for
    any e.
    """
    factor = np.float32(INT32_MAX / workers)
    worst = np.nextafter(np.float32(1), np.float32(0))
    return workers * math.floor(float(worst * factor) + 0.5) > INT32_MAX
