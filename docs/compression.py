"""Draw docs/compression.svg from measurements of docs/quantized.py, and print the table to stderr.

python -m docs.compression build/quantized.json > docs/compression.svg
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from docs.demo import curve, means, panel
from docs.svg import LEFT, document, text

if TYPE_CHECKING:
    from collections.abc import Mapping

# Colour and dashes of each line; the colours are Okabe and Ito's.
_LOOKS = {
    "float32": 'stroke="#000000" stroke-width="5" opacity="0.3"',
    "8 bits": 'stroke="#0072B2" stroke-width="1.4"',
    "4 bits": 'stroke="#D55E00" stroke-width="1.4" stroke-dasharray="6 2"',
    "4 bits, error feedback": 'stroke="#009E73" stroke-width="1.4" stroke-dasharray="2 2"',
    "2 bits": 'stroke="#CC79A7" stroke-width="1.4" stroke-dasharray="8 2 2 2"',
    "2 bits, error feedback": 'stroke="#E69F00" stroke-width="1.4" stroke-dasharray="10 3"',
}
_APART, _BOTTOM = 430, 296  # pixels


def picture(measured: Mapping[str, Mapping[str, Any]]) -> str:
    right = LEFT + _APART * len(measured)
    title = "Training losses with gradients in fewer bits, on two ranks"
    lines: list[str] = []
    for number, (network, ways) in enumerate(measured.items()):
        x = LEFT + number * _APART
        steps = len(ways["float32"]["losses"])
        top = max(means(ways["float32"]["losses"])) * 1.05
        ticks = {f"{top * part:.1f}": part for part in (0, 0.5, 1)}
        lines += panel(x, network, steps, ticks)
        for way, found in ways.items():
            drawn = [min(value, top) for value in means(found["losses"])]
            lines.append(curve(x, drawn, 0, top, _LOOKS[way]))
    for number, (way, look) in enumerate(_LOOKS.items()):
        x, y = LEFT + number % 3 * 250, _BOTTOM + number // 3 * 24
        lines.append(f'<path d="M{x},{y} h40" fill="none" {look}/>')
        lines.append(text(x + 48, y + 4, way))
    return document(right - 80, 356, title, lines)


def table(measured: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a Markdown table: a row for each kind of gradients, two columns for each network."""
    header = [f"{network}: bytes a step | right" for network in measured]
    rows = [["gradients", *header], ["---"] * (1 + 2 * len(measured))]
    for way in _LOOKS:
        found = [ways[way] for ways in measured.values()]
        cells = [f"{one['bytes']:,.0f} | {100 * one['accuracy']:.1f} %" for one in found]
        rows.append([way, *cells])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        known = json.load(file)
    sys.stdout.write(picture(known))
    sys.stderr.write(table(known))
