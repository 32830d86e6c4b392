"""The plot: how wrong an element is for its magnitude, and what accuracy costs on the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchgen.system import plots

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from patchgen.extras.accuracy.deviation import Binade
    from patchgen.extras.accuracy.measure import Measured
    from patchgen.extras.accuracy.tensors import Tensors

_MIDDLE = 2**0.5  # of a binade
_FEWEST = 30  # elements, of which a mean says something


def write(path: str, tensors: Tensors, measured: Sequence[Measured]) -> None:
    """Draws what was measured.

    Raises:
        ToolError: matplotlib is not installed.
        FileError: the file cannot be written.
    """
    title = f"Sums of {tensors.numel:,} elements over {tensors.workers} workers: {tensors.origin}"
    with plots.png(path, panels=2, title=title) as (magnitudes, wire):
        _by_magnitude(magnitudes, measured)
        _by_bits(wire, measured)


def _by_magnitude(axes: Axes, measured: Sequence[Measured]) -> None:
    axes.set_title("Error by magnitude")
    axes.set_xlabel("|exact sum| of an element")
    axes.set_ylabel(f"RMS error of {_FEWEST} or more such elements")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.minorticks_off()
    for index, one in enumerate(measured):
        drawn = drawable(one.deviation.binades)
        axes.plot(
            [_MIDDLE * 2.0**binade.exponent for binade in drawn],
            [binade.rms for binade in drawn],
            label=one.method.name,
            **plots.style(index),
        )
    ends = axes.get_xlim()
    axes.plot(ends, ends, color=plots.GREY, linewidth=1, label="error = value")
    axes.set_xlim(ends)
    plots.legend(axes)


def drawable(binades: Sequence[Binade]) -> list[Binade]:
    """Binades with an error, and with so many elements that it is no chance of a few."""
    return [binade for binade in binades if binade.rms and binade.count >= _FEWEST]


def _by_bits(axes: Axes, measured: Sequence[Measured]) -> None:
    axes.set_title("Error and traffic, marked as on the left")
    axes.set_xlabel("bits that a worker sends for each element")
    axes.set_ylabel("relative error of all elements (L2)")
    axes.set_yscale("log")
    axes.minorticks_off()
    axes.margins(0.15)
    for index, one in enumerate(measured):
        if one.deviation.relative:
            plots.point(axes, index, one.sent, one.deviation.relative)
    axes.set_xlim(left=0)
