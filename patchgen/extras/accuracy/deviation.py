"""Exact sums of float32, and the deviation of results from exact sums."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass
class Deviation:
    """Errors of results, except elements whose exact sum is not finite."""

    count: int = 0
    undefined: int = 0
    """Number of elements whose exact sum is not finite."""
    zeroed: int = 0
    """Number of elements that are 0 although their exact sum is not."""
    lost: int = 0
    """Number of elements that are inf or NaN although their exact sum is finite."""
    largest: float = 0.0
    """Largest absolute error."""
    _squares: float = 0.0
    _power: float = 0.0

    def add(
        self,
        exact: tuple[NDArray[np.float64], NDArray[np.float64]],
        result: NDArray[np.float32],
    ) -> None:
        """Add a block: its sums as `exact_sum` returns them, and a result, float32 [numel]."""
        high, low = exact
        defined = np.isfinite(high)
        kept = defined & np.isfinite(result)
        self.undefined += len(result) - int(np.count_nonzero(defined))
        self.lost += int(np.count_nonzero(defined) - np.count_nonzero(kept))
        if not kept.all():
            high, low, result = high[kept], low[kept], result[kept]
        error = np.abs((result.astype(np.float64) - high) - low)
        self.count += len(error)
        self.zeroed += int(np.count_nonzero((result == 0) & (high != 0)))
        self.largest = max(self.largest, float(error.max(initial=0.0)))
        self._squares += float((error * error).sum())
        self._power += float((high * high).sum())

    @property
    def rms(self) -> float:
        """Root of the mean square of the errors."""
        return math.sqrt(self._squares / self.count) if self.count else 0.0

    @property
    def relative(self) -> float | None:
        """L2 norm of the errors over the L2 norm of the exact sums; None if the latter is 0."""
        return math.sqrt(self._squares / self._power) if self._power else None

    @property
    def decibel(self) -> float | None:
        """Signal to noise ratio in dB; None without noise or signal."""
        return -20 * math.log10(self.relative) if self.relative else None


def exact_sum(values: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the sum over the workers as two float64: the rounded sum, and the rest.

    Every addition is split into its rounded result and its rounding error (Knuth's TwoSum). So the
    error is below 2^-100 of the sum of the magnitudes, even where large values cancel.

    Args:
        values: float32 [workers, numel].

    Returns:
        Two float64 [numel]. The first is not finite where a value is not.
    """
    high = np.zeros(values.shape[1], np.float64)
    low = np.zeros_like(high)
    with np.errstate(invalid="ignore"):
        for row in values:
            high, lost = _two_sum(high, row.astype(np.float64))
            low += lost
        return _two_sum(high, low)


def _two_sum(
    left: NDArray[np.float64], right: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    total = left + right
    of_right = total - left
    return total, (left - (total - of_right)) + (right - of_right)
