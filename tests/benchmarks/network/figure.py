"""The figures of a run as a picture: an SVG of some kilobytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from docs.svg import LEFT, document, text
from network.report import name

_TOP, _HIGH = 74, 210  # pixels
_BAR, _GAP, _APART = 26, 34, 90
# Okabe and Ito's colours, as in patchgen/system/plots.py.
_COLOURS = ("#0072B2", "#D55E00", "#E69F00", "#009E73")
_TICKS = 4


def picture(data: Mapping[str, Any]) -> str:
    """Bars of the seconds of an allreduce, and of the steps a second of a training."""
    groups = {f"{ranks} ranks": found for ranks, found in data["ranks"].items()}
    ways = [*next(iter(groups.values()))["seconds"]]
    seconds = {
        label: {way: found["seconds"][way]["median"] for way in ways}
        for label, found in groups.items()
    }
    marks = {label: found["predicted"] for label, found in groups.items()}
    size = data["numel"] * 4 / 2**20
    lines = _panel(LEFT, f"Seconds for an allreduce of {size:g} MiB", ways, seconds, marks)
    wide = LEFT + _width(seconds)
    for label, found in groups.items():
        if "steps" in found:
            left, title = wide + _APART, f"Steps a second of a training, {label}"
            lines += _panel(left, title, ways, {"": found["steps"]}, {})
            wide = left + max(_width({"": found["steps"]}), 250)
    title = (
        f"Gloo, and SwitchML with a switch in software, "
        f"each rank on a link of {data['rate']:g} Mbit/s"
    )
    legend, x = [], LEFT
    for number, way in enumerate(ways):
        y = _TOP + _HIGH + 46
        legend.append(
            f'<rect x="{x}" y="{y - 10}" width="12" height="12" fill="{_COLOURS[number]}"/>'
        )
        legend.append(text(x + 18, y, name(way)))
        x += 140
    y = _TOP + _HIGH + 46
    legend.append(f'<path d="M{x},{y - 4} h16" stroke="#000" stroke-width="2"/>')
    legend.append(text(x + 22, y, "predicted: bytes over rate, plus latency"))
    wide = max(wide + 20, x + 280)
    high = _TOP + _HIGH + 66
    return document(wide, high, title, [*lines, *legend], title_y=26)


def _width(groups: Mapping[str, Mapping[str, float]]) -> int:
    return sum(_BAR * len(each) for each in groups.values()) + _GAP * len(groups)


def _panel(
    left: int,
    title: str,
    ways: Sequence[str],
    groups: Mapping[str, Mapping[str, float]],
    marks: Mapping[str, Mapping[str, float]],
) -> list[str]:
    """Groups of bars, with a mark at what was predicted."""
    values = [value for each in (*groups.values(), *marks.values()) for value in each.values()]
    top = _round(max(values))
    lines = [text(left, _TOP - 16, title, ' font-weight="bold"')]
    for number in range(_TICKS + 1):
        y = _TOP + _HIGH - _HIGH * number / _TICKS
        lines.append(f'<path d="M{left},{y:g} h{_width(groups)}" stroke="#ddd"/>')
        label = f"{top * number / _TICKS:g}"
        lines.append(text(left - 6, y + 4, label, ' text-anchor="end" fill="#555"'))
    x = left + _GAP // 2
    for label, each in groups.items():
        middle = x + _BAR * len(each) / 2
        lines.append(text(middle, _TOP + _HIGH + 18, label, ' text-anchor="middle" fill="#555"'))
        for way, value in each.items():
            lines += _bar(x, value, top, _COLOURS[ways.index(way)], marks.get(label, {}).get(way))
            x += _BAR
        x += _GAP
    return lines


def _bar(x: float, value: float, top: float, colour: str, mark: float | None) -> Iterator[str]:
    high = _HIGH * value / top
    y = _TOP + _HIGH - high
    yield _block(x + 1, y, _BAR - 2, high, colour)
    small = ' text-anchor="middle" font-size="10"'
    above = min(y, _TOP + _HIGH - _HIGH * (mark or 0) / top)
    yield text(x + _BAR / 2, above - 4, f"{value:.2g}" if value < 1 else f"{value:.1f}", small)
    if mark is not None:
        at = _TOP + _HIGH - _HIGH * mark / top
        yield f'<path d="M{x - 1:g},{at:.1f} h{_BAR + 2}" stroke="#000" stroke-width="2"/>'


def _round(value: float) -> float:
    """The next round number that leaves room for a label."""
    for step in (0.1, 0.2, 0.25, 0.5, 0.75, 1.0, 2.0, 2.5, 5.0, 7.5, 10.0, 20.0):
        if _TICKS * step >= 1.08 * value:
            return _TICKS * step
    return 1.08 * value


def _block(x: float, y: float, wide: float, high: float, colour: str) -> str:
    place = f'x="{x:g}" y="{y:.1f}" width="{wide:g}" height="{high:.1f}"'
    return f'<rect {place} fill="{colour}"/>'
