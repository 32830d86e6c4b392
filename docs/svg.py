"""Parts of the pictures of the docs: a small SVG, written as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

LEFT = 60  # pixels to the left of titles


def text(x: float, y: float, words: str, more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}"{more}>{words}</text>'


def document(width: int, height: int, title: str, lines: Iterable[str], title_y: int = 24) -> str:
    """Return a file with a title above the elements in `lines`, on white."""
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    font = 'font-family="DejaVu Sans, Verdana, sans-serif" font-size="12" fill="#1a1a1a"'
    whole = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" {font}>',
        f"<title>{title}</title>",
        '<rect width="100%" height="100%" fill="#fff"/>',
        text(LEFT, title_y, title, ' font-size="14" font-weight="bold"'),
        *lines,
        "</svg>",
    ]
    return "\n".join(whole) + "\n"
