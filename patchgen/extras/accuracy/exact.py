"""Sums of float32 that others are measured against."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
