"""Plot of both losses and of their difference, readable for the colour-blind."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from patchgen.errors import file_errors
from patchgen.extras.train.demo.comparison import Comparison
from patchgen.system import files

if TYPE_CHECKING:
    import numpy.typing as npt
    from matplotlib.axes import Axes

    Values = npt.NDArray[np.float64]

_POINTS = 64  # of a curve
_WIDE = 5  # points, wider than the line drawn on top
_TALLEST = 10.5  # units of a power of ten
# Okabe and Ito's colours; the lines differ in dash and marker as well.
_STOCK: dict[str, Any] = {
    "color": "#0072B2", "marker": "o", "markevery": 0.1,
    "linewidth": _WIDE, "alpha": 0.45, "markersize": 9,
}  # fmt: skip
_SWITCHML: dict[str, Any] = {
    "color": "#D55E00", "linestyle": "--", "marker": "s",
    "markevery": (0.05, 0.1),  # between the other line's markers
}  # fmt: skip
_GREY = "#666666"
_SIZE = (10.8, 4.2)  # inches
_DPI = 160
_LOOK = os.path.join(os.path.dirname(__file__), "picture.mplstyle")


def write(path: str, outcome: Comparison) -> None:
    """Draw the outcome as a PNG file, independently of the user's settings of matplotlib.

    Raises:
        FileError: the file cannot be written; an old file is kept.
    """
    import matplotlib as mpl  # of the extra `plots`
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    title = f"A training on {outcome.ranks} ranks: stock Gloo, and gradients summed by SwitchML"
    content = io.BytesIO()
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(mpl.rc_params_from_file(_LOOK, use_default_template=False))
        figure = Figure(figsize=_SIZE, dpi=_DPI, layout="constrained")
        FigureCanvasAgg(figure)
        figure.suptitle(title, fontsize=11)
        _losses(figure.add_subplot(1, 2, 1), outcome)
        _difference(figure.add_subplot(1, 2, 2), outcome)
        figure.savefig(content, format="png", metadata={"Software": None})
    with file_errors():
        files.replace(os.fsencode(path), content.getvalue())


def means(values: Values) -> tuple[Values, Values]:
    """Return at most 64 steps for a curve, and the mean of the values around each."""
    parts = np.array_split(np.arange(1, len(values) + 1), min(_POINTS, len(values)))
    steps = np.array([part.mean() for part in parts])
    return steps, np.array([values[part - 1].mean() for part in parts])


def _losses(axes: Axes, outcome: Comparison) -> None:
    axes.set_title("Loss")
    axes.set_xlabel("step")
    axes.set_ylabel("cross entropy, mean of all ranks")
    axes.plot(*means(outcome.stock.losses), label="stock Gloo", **_STOCK)
    axes.plot(*means(outcome.switchml.losses), label="SwitchML (dashes on top)", **_SWITCHML)
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.16), ncol=3)  # below the axes


def _difference(axes: Axes, outcome: Comparison) -> None:
    difference = outcome.switchml.losses - outcome.stock.losses
    most = float(np.abs(difference).max())
    unit = 10.0 ** np.floor(np.log10(most)) if 0 < most < np.inf else 1.0
    axes.set_title("Loss with SwitchML minus loss with Gloo")
    axes.set_xlabel("step")
    axes.set_ylabel(f"difference, in units of {unit:.0e}")
    axes.plot(np.arange(1, len(difference) + 1), difference / unit, color=_GREY, linewidth=1)
    axes.set_ylim(-_TALLEST, _TALLEST)
