"""Plots as PNG files that are clear in print and for the colour-blind.

Lines differ in colour, dash and marker at once. No display, window system or file of the user's
decides how they look.
"""

from __future__ import annotations

import contextlib
import io
import os
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from patchgen.errors import file_errors
from patchgen.system import extras, files

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, without the yellow that paper does not show.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8B5A2B")
_DASHES = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)))
_MARKERS = "os^Dv<>P"
GREY = "#666666"

_DPI = 160
_TITLE = 55  # characters over a panel
_PANEL = (5.4, 4.2)  # inches
_LOOK = os.path.join(os.path.dirname(__file__), "plots.mplstyle")


def require() -> None:
    """Checks that what draws is installed.

    Raises:
        ToolError: it is not.
    """
    extras.require({"matplotlib": "matplotlib", "numpy": "numpy"})


def style(index: int) -> dict[str, Any]:
    """Style of the line of that number, as arguments of `Axes.plot`."""
    return {
        "color": _COLOURS[index % len(_COLOURS)],
        "linestyle": _DASHES[index % len(_DASHES)],
        "marker": _MARKERS[index % len(_MARKERS)],
        "markevery": 0.1,  # of the panel, however many points there are
    }


def legend(axes: Axes) -> None:
    """Below the panel, where it hides nothing."""
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.16), ncol=3)


def _plain(title: str, most: int) -> str:
    """Text that fits and is no formula."""
    short = title if len(title) <= most else f"{title[: most - 1]}…"
    return short.replace("$", r"\$")


@contextlib.contextmanager
def png(path: str, panels: int = 1, title: str = "") -> Iterator[list[Axes]]:
    """Axes side by side, to be drawn on; the file is written at the end, whole or not at all.

    Raises:
        ToolError: matplotlib is not installed.
        FileError: the file cannot be written.
    """
    require()
    import matplotlib as mpl  # of the extra `plots`
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(mpl.rc_params_from_file(_LOOK, use_default_template=False))
        width, height = _PANEL
        figure = Figure(figsize=(panels * width, height), dpi=_DPI, layout="constrained")
        FigureCanvasAgg(figure)
        if title:
            figure.suptitle(_plain(title, _TITLE * panels), fontsize=11)
        yield [figure.add_subplot(1, panels, number + 1) for number in range(panels)]
        content = io.BytesIO()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph")  # a box stands for what no font has
            figure.savefig(content, format="png", metadata={"Software": None})
    with file_errors():
        files.replace(os.fsencode(path), content.getvalue())
