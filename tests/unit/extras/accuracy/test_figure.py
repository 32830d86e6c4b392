"""What of a measurement is drawn."""

from __future__ import annotations

import numpy as np

from patchgen.extras.accuracy import figure
from patchgen.extras.accuracy.deviation import Deviation


def test_magnitudes_of_few_elements_are_left_out() -> None:
    """One element's error would look like that of all of its magnitude."""
    found = Deviation()
    exact = np.repeat([1.5, 3.0, 6.0], [29, 30, 31])
    found.add((exact, np.zeros(90)), (exact * (1 + 2.0**-20)).astype(np.float32))
    assert [binade.count for binade in found.binades] == [29, 30, 31]
    assert [binade.exponent for binade in figure.drawable(found.binades)] == [1, 2]


def test_magnitudes_without_an_error_are_left_out() -> None:
    found = Deviation()
    exact = np.repeat([1.5, 3.0], 40)
    result = np.where(exact > 2, exact, exact + 2.0**-20).astype(np.float32)
    found.add((exact, np.zeros(80)), result)
    assert [binade.exponent for binade in figure.drawable(found.binades)] == [0]
