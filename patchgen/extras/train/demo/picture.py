"""Plot of the losses of both trainings, and of their difference."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from patchgen.extras.train.demo.comparison import Comparison
from patchgen.system import plots

if TYPE_CHECKING:
    import numpy.typing as npt
    from matplotlib.axes import Axes

    Values = npt.NDArray[np.float64]

_POINTS = 64  # of a curve, each the mean of some steps
_WIDE = 5  # points, so that a line on top does not hide it
_TALLEST = 10.5  # units of a power of ten


def write(path: str, outcome: Comparison) -> None:
    """Draws the outcome.

    Raises:
        ToolError: matplotlib is not installed.
        FileError: the file cannot be written.
    """
    title = f"A training on {outcome.ranks} ranks: stock Gloo, and gradients summed by SwitchML"
    with plots.png(path, panels=2, title=title) as (losses, difference):
        _losses(losses, outcome)
        _difference(difference, outcome)


def means(values: Values) -> tuple[Values, Values]:
    """Steps and the mean of the values around each, few enough for a curve."""
    parts = np.array_split(np.arange(1, len(values) + 1), min(_POINTS, len(values)))
    steps = np.array([part.mean() for part in parts])
    return steps, np.array([values[part - 1].mean() for part in parts])


def _losses(axes: Axes, outcome: Comparison) -> None:
    axes.set_title("Loss")
    axes.set_xlabel("step")
    axes.set_ylabel("cross entropy, mean of all ranks")
    stock = {**plots.style(0), "linewidth": _WIDE, "alpha": 0.45, "markersize": 9}
    switchml = {**plots.style(1), "markevery": (0.05, 0.1)}  # between the markers of the other
    axes.plot(*means(outcome.stock.losses), label="stock Gloo", **stock)
    axes.plot(*means(outcome.switchml.losses), label="SwitchML (dashes on top)", **switchml)
    axes.set_ylim(bottom=0)
    plots.legend(axes)


def _difference(axes: Axes, outcome: Comparison) -> None:
    difference = outcome.switchml.losses - outcome.stock.losses
    most = float(np.abs(difference).max())
    unit = 10.0 ** np.floor(np.log10(most)) if 0 < most < np.inf else 1.0
    axes.set_title("Loss with SwitchML minus loss with Gloo")
    axes.set_xlabel("step")
    axes.set_ylabel(f"difference, in units of {unit:.0e}")
    axes.plot(np.arange(1, len(difference) + 1), difference / unit, color=plots.GREY, linewidth=1)
    axes.set_ylim(-_TALLEST, _TALLEST)
