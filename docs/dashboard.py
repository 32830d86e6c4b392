"""Draws docs/dashboard.svg: the panels of docs/grafana.json with the answers of a Prometheus.

SWITCHML_TEST_DASHBOARD=build/run.json python -m pytest tests/integration/plugin/test_dashboard.py
python -m docs.dashboard build/run.json > docs/dashboard.svg
"""

from __future__ import annotations

import json
import math
import sys
from itertools import groupby
from typing import TYPE_CHECKING

from docs.grafana import COLUMNS, STATES, dashboard
from docs.svg import document, text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Series = Mapping[str, Sequence[tuple[float, float]]]
    """Points of lines by their names: seconds and values."""

_LOOKS = (
    'stroke="#0072B2"',
    'stroke="#E69F00" stroke-dasharray="6 4"',
    'stroke="#009E73" stroke-dasharray="2 3"',
    'stroke="#CC79A7" stroke-dasharray="9 3"',
    'stroke="#D55E00"',
)
"""Okabe and Ito's colours; with dashes, lines that coincide are seen."""
_COLUMN, _ROW, _TOP, _GAP = 38, 21, 40, 10  # pixels
_HEAD, _FOOT, _LEFT = 32, 52, 84  # pixels of a panel over, under and left of its plot
_UNITS = {"Bps": "B/s", "ops": "/s", "pps": "/s", "s": "s", "none": ""}


def _small(x: float, y: float, words: str, anchor: str = "start", fill: str = "#555") -> str:
    return text(x, y, words, f' font-size="11" text-anchor="{anchor}" fill="{fill}"')


def _number(value: float, unit: str) -> str:
    """Return a value with its unit, which has Grafana's name for it."""
    if unit == "percentunit":
        return f"{100 * value:.3g} %"
    power = math.floor(math.log10(value) / 3) if value else 0
    power = min(3, max(-1 if unit == "s" else 0, power))
    prefix = ("", "k", "M", "G", "m")[power]
    return f"{value / 1000**power:.3g} {prefix}{_UNITS[unit]}".replace(" /", "/").strip()


def _ceiling(value: float) -> float:
    """Return 1, 2, 2.5 or 5 times a power of ten that is no less than the value."""
    power = 10.0 ** math.floor(math.log10(value)) if value > 0 else 1.0
    return next(power * step for step in (1, 2, 2.5, 5, 10) if power * step >= 0.999 * value)


class _Plot:
    """Place of a panel's plot, whose axis has the seconds of a run."""

    def __init__(self, grid: Mapping[str, int], begin: float, end: float) -> None:
        self.left = _GAP + grid["x"] * _COLUMN + _LEFT
        self.top = _TOP + grid["y"] * _ROW + _HEAD
        self.wide = grid["w"] * _COLUMN - _LEFT - 3 * _GAP
        self.high = grid["h"] * _ROW - _HEAD - _FOOT - _GAP
        self.bottom = self.top + self.high
        self._begin, self._scale = begin, self.wide / (end - begin)
        self.seconds = f"{end - begin:.0f} s"

    def x(self, at: float) -> float:
        return self.left + (at - self._begin) * self._scale

    def axis(self) -> list[str]:
        y = self.bottom + 14
        right = self.left + self.wide
        return [_small(self.left, y, "0 s"), _small(right, y, self.seconds, "end")]


def _draw_values(plot: _Plot, series: Series, unit: str) -> list[str]:
    """Return the newest values as words; zeros are left out where others are not."""
    newest = {name: points[-1][1] for name, points in series.items()}
    shown = {name: value for name, value in newest.items() if value} or newest
    words = ", ".join(f"{_number(value, unit)} {name}" for name, value in shown.items())
    return [text(plot.left - _LEFT + 10, plot.top + 18, words, ' font-size="15"')]


def _draw_states(plot: _Plot, series: Series) -> list[str]:
    """Return a bar for each series, and what its colours mean."""
    lines = plot.axis()
    high = plot.high / len(series)
    for row, (name, points) in enumerate(series.items()):
        top = plot.top + row * high
        lines.append(_small(plot.left - 6, top + high / 2 + 2, name, "end"))
        for state, part in groupby(points, key=lambda point: [*STATES][int(point[1])]):
            times = [at for at, _ in part]
            left, right = plot.x(times[0]), min(plot.x(times[-1] + 1), plot.left + plot.wide)
            size = f'width="{right - left:.1f}" height="{high - 6:g}"'
            fill = f'fill="{STATES[state]}"'
            lines.append(f'<rect x="{left:.1f}" y="{top:g}" {size} {fill}/>')
    for place, (state, color) in enumerate(STATES.items()):
        x, y = plot.left + place * 110, plot.bottom + 24
        lines.append(f'<rect x="{x}" y="{y}" width="12" height="12" fill="{color}"/>')
        lines.append(_small(x + 18, y + 10, state))
    return lines


def _draw_lines(plot: _Plot, series: Series, unit: str) -> list[str]:
    """Return lines and their names; lines at zero are left out where others are not."""
    lines = plot.axis()
    top = _ceiling(max(value for points in series.values() for _, value in points))
    for part in (0, 0.5, 1):
        y = plot.bottom - part * plot.high
        lines.append(f'<path d="M{plot.left},{y:g} h{plot.wide}" stroke="#ddd"/>')
        lines.append(_small(plot.left - 6, y + 4, _number(part * top, unit), "end"))
    seen = {name: points for name, points in series.items() if any(value for _, value in points)}
    x, y = plot.left, plot.bottom + 32
    for look, (name, points) in zip(_LOOKS, (seen or series).items()):
        drawn = " ".join(
            f"{plot.x(at):.0f},{plot.bottom - value / top * plot.high:.1f}" for at, value in points
        )
        lines.append(f'<polyline points="{drawn}" fill="none" stroke-width="1.6" {look}/>')
        if x + 6 * len(name) > plot.left + plot.wide:
            x, y = plot.left, y + 15
        lines.append(f'<path d="M{x},{y - 4} h20" stroke-width="2" {look}/>')
        lines.append(_small(x + 26, y, name))
        x += 44 + 6 * len(name)
    return lines


def picture(answers: Sequence[Series]) -> str:
    """Return the dashboard as SVG, with the series of each of its panels."""
    times = [at for series in answers for points in series.values() for at, _ in points]
    begin, end = min(times), max(times)
    lines = []
    for panel, series in zip(dashboard()["panels"], answers):
        plot = _Plot(panel["gridPos"], begin, end)
        kind, unit = panel["type"], panel["fieldConfig"]["defaults"]["unit"]
        x, y = plot.left - _LEFT, plot.top - _HEAD
        size = f'width="{plot.wide + _LEFT + 2 * _GAP}" height="{plot.high + _HEAD + _FOOT}"'
        lines.append(f'<rect x="{x}" y="{y}" {size} fill="none" stroke="#ccc"/>')
        lines.append(text(x + 10, y + 18, panel["title"], ' font-weight="bold"'))
        if kind == "stat":
            lines += _draw_values(plot, series, unit)
        elif kind == "state-timeline":
            lines += _draw_states(plot, series)
        else:
            lines += _draw_lines(plot, series, unit)
    width = COLUMNS * _COLUMN + _GAP
    title = "Two ranks: packets come late, then the switch fails, and comes back"
    return document(width, plot.bottom + _FOOT + _GAP, title, lines)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        sys.stdout.write(picture(json.load(file)))
