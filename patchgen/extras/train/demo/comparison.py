"""Comparison of two trainings: how far they are apart, and how far rounding may take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from patchgen.extras.train.demo.training import Training

_FLOAT32 = 2.0**-24  # relative error of a rounding to float32
_INT32 = 2.0**-31  # error of the fixed point: half its unit, where 1 is the largest of a packet
_IN_SWITCHML = 3  # roundings to float32 of a sum: before the integers, and twice after


@dataclass(frozen=True)
class Comparison:
    """Both trainings, and how they differ."""

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
        """Largest difference between a weight after one training and after the other."""
        wanted = self.stock.weights[0].astype(np.float64)
        return float(max(np.abs(found - wanted).max() for found in self.switchml.weights))

    @property
    def allowed(self) -> float:
        """Deviation that rounding explains, where differences do not grow from step to step.

        In each step both trainings round their weights to float32, and the sums of their gradients
        differ by what is rounded in them. The fixed point of a packet is a multiple of its largest
        value, which is at most that of the gradients divided by the ranks.
        """
        both = (self.stock, self.switchml)
        weight = max(float(np.abs(weights).max()) for one in both for weights in one.weights)
        gradient = max(one.largest_gradient for one in both)
        in_gloo = self.ranks - 1
        in_sum = gradient * ((_IN_SWITCHML + in_gloo) * _FLOAT32 + self.ranks * _INT32)
        return self.steps * (2 * _FLOAT32 * weight + self.stock.reach * in_sum)

    def problems(self) -> Sequence[str]:
        """Problems of the trainings, a line each."""
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
