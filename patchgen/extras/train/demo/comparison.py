"""Comparison of two trainings: how far they differ, and how far rounding explains that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from patchgen.extras.train.demo.training import Training

_FLOAT32 = 2.0**-24  # relative error of a rounding to float32
_INT32 = 2.0**-31  # error of the fixed point, half its unit, relative to a packet's largest value
_IN_SWITCHML = 3  # roundings of a sum to float32: one before the integers, two after


@dataclass(frozen=True)
class Comparison:
    """Both trainings, and their differences."""

    stock: Training
    switchml: Training

    @property
    def ranks(self) -> int:
        """Number of ranks that trained together."""
        return len(self.switchml.weights)

    @property
    def steps(self) -> int:
        """Number of steps of each training."""
        return len(self.switchml.losses)

    @property
    def deviation(self) -> float:
        """Largest difference between a weight of one training and the same weight of the other."""
        wanted = self.stock.weights[0].astype(np.float64)
        return float(max(np.abs(found - wanted).max() for found in self.switchml.weights))

    @property
    def allowed(self) -> float:
        """Deviation that rounding explains, if differences do not grow from step to step.

        In each step both trainings round their weights to float32, and the sums of their gradients
        differ by their rounding. The fixed point of a packet is relative to its largest value,
        which is at most the largest gradient divided by the ranks.
        """
        both = (self.stock, self.switchml)
        weight = max(float(np.abs(weights).max()) for one in both for weights in one.weights)
        gradient = max(one.largest_gradient for one in both)
        in_gloo = self.ranks - 1
        in_sum = gradient * ((_IN_SWITCHML + in_gloo) * _FLOAT32 + self.ranks * _INT32)
        return self.steps * (2 * _FLOAT32 * weight + self.stock.reach * in_sum)

    def problems(self) -> Sequence[str]:
        """Return the problems of the trainings, a line each."""
        found = [
            f"rank {rank} has learnt other weights than rank 0, with {name}; sums must be the same"
            for name, one in (("stock Gloo", self.stock), ("SwitchML", self.switchml))
            for rank, weights in enumerate(one.weights)
            if weights.tobytes() != one.weights[0].tobytes()
        ]
        if not self.deviation <= self.allowed:  # as NaN is not
            found.append(
                f"the weights differ by {self.deviation:.1e}, and rounding explains "
                f"{self.allowed:.1e}: a sum was wrong"
            )
        return found
