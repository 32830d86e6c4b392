"""Draw docs/demo.svg from the measurements of a demo, as an SVG of a few kilobytes.

make demo python -m docs.demo build/demo/demo.json > docs/demo.svg
"""

from __future__ import annotations

import json
import math
import sys
from typing import TYPE_CHECKING, Any

from docs.svg import LEFT, document, text

if TYPE_CHECKING:
    from collections.abc import Sequence

_POINTS = 64  # of a curve
_TOP, _WIDE, _HIGH, _APART = 64, 330, 190, 430  # pixels
_STOCK, _SWITCHML, _GREY = "#0072B2", "#D55E00", "#555555"


def means(values: Sequence[float]) -> list[float]:
    """Return the means of at most `_POINTS` equal parts."""
    size = max(1, math.ceil(len(values) / _POINTS))
    parts = [values[begin : begin + size] for begin in range(0, len(values), size)]
    return [sum(part) / len(part) for part in parts]


def curve(x: float, values: Sequence[float], low: float, high: float, look: str) -> str:
    """Return a line over the width of a panel, whose lower and upper edge are `low` and `high`."""
    step = _WIDE / max(1, len(values) - 1)
    scale = _HIGH / (high - low)
    points = " ".join(
        f"{x + place * step:.1f},{_TOP + (high - value) * scale:.1f}"
        for place, value in enumerate(values)
    )
    return f'<polyline points="{points}" fill="none" {look}/>'


def panel(x: float, title: str, steps: int, ticks: dict[str, float]) -> list[str]:
    """Return axes; `ticks` are labels and their height, from 0 at the lower edge to 1."""
    lines = [text(x, _TOP - 14, title, ' font-weight="bold"')]
    for label, height in ticks.items():
        y = _TOP + (1 - height) * _HIGH
        lines.append(f'<path d="M{x:g},{y:g} h{_WIDE}" stroke="#ddd"/>')
        lines.append(text(x - 6, y + 4, label, ' text-anchor="end" fill="#555"'))
    lines.append(text(x, _TOP + _HIGH + 18, "step 1", ' fill="#555"'))
    end = ' text-anchor="end" fill="#555"'
    lines.append(text(x + _WIDE, _TOP + _HIGH + 18, f"step {steps}", end))
    return lines


def picture(demo: dict[str, Any]) -> str:
    stock, switchml = demo["stock"]["losses"], demo["switchml"]["losses"]
    difference = [ours - theirs for ours, theirs in zip(switchml, stock)]
    most = max(map(abs, difference))
    unit = 10.0 ** math.floor(math.log10(most)) if most else 1.0
    edge = math.ceil(most / unit) * unit
    top = math.ceil(max(means(stock)) * 2) / 2
    right = LEFT + _APART
    title = f"A training on {demo['ranks']} ranks: stock Gloo, and gradients summed by SwitchML"
    seen = [f"{demo[way]['accuracies'][-1]:.1%}" for way in ("stock", "switchml")]
    summed = (
        f"SwitchML summed {demo['delegated']['calls']:,} allreduces,"
        f" {demo['delegated']['bytes']:,} bytes of each rank."
    )
    learned = (
        f"Unseen digits that are read right: {seen[0]} with Gloo, {seen[1]} with SwitchML."
        f" Largest deviation of a weight: {demo['deviation']:.1e}."
    )
    lines = [
        *panel(LEFT, "Loss", len(stock), {f"{top * part:g}": part for part in (0, 0.5, 1)}),
        curve(LEFT, means(stock), 0, top, f'stroke="{_STOCK}" stroke-width="6" opacity="0.4"'),
        curve(LEFT, means(switchml), 0, top, f'stroke="{_SWITCHML}" stroke-width="1.6"'),
        text(LEFT + 180, _TOP + 40, "stock Gloo, the wide line", f' fill="{_STOCK}"'),
        text(LEFT + 180, _TOP + 60, "SwitchML, the thin one", f' fill="{_SWITCHML}"'),
        *panel(
            right,
            "Loss with SwitchML minus loss with Gloo",
            len(stock),
            {f"{-edge:.0e}": 0, "0": 0.5, f"{edge:.0e}": 1},
        ),
        curve(right, difference, -edge, edge, f'stroke="{_GREY}" stroke-width="1"'),
        text(LEFT, 302, summed),
        text(LEFT, 322, learned),
    ]
    return document(right + _WIDE + 20, 336, title, lines)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        sys.stdout.write(picture(json.load(file)))
