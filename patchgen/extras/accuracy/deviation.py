"""Exact sums of float32, and the deviation of results from them, collected block by block."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass
class Deviation:
    """Errors of results. Elements whose exact sum is not finite are left out of all of it."""

    count: int = 0
    undefined: int = 0
    """Elements that were left out."""
    zeroed: int = 0
    """Elements that are 0 though their exact sum is not."""
    lost: int = 0
    """Elements that are inf or NaN though their exact sum is finite; left out of the errors."""
    largest: float = 0.0
    """Error, absolute."""
    _squares: float = 0.0
    _power: float = 0.0

    def add(
        self,
        exact: tuple[NDArray[np.float64], NDArray[np.float64]],
        result: NDArray[np.float32],
    ) -> None:
        """Counts a block in.

        Args:
            exact: the sums, as `exact_sum` returns them.
            result: float32 [numel].
        """
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
        """Norm of the errors over the norm of the exact sums (L2); None where that is 0."""
        return math.sqrt(self._squares / self._power) if self._power else None

    @property
    def decibel(self) -> float | None:
        """Signal to noise ratio; None where there is no noise or no signal."""
        return -20 * math.log10(self.relative) if self.relative else None


def exact_sum(values: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The sum over the workers as two float64, of which the second is what the first leaves out.

    Every addition is split into its rounded result and its rounding error (Knuth's TwoSum), so a
    sum is right to 2^-100 of the sum of the magnitudes, also where large values cancel.

    Args:
        values: float32 [workers, numel].

    Returns:
        Two float64 [numel]; the first is not finite where a value is not.
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
