"""Tables in plain text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

_GAP = "  "


def lines(header: Sequence[str], rows: Sequence[Sequence[str]], *, words: int = 1) -> Iterator[str]:
    """Yield a header, a rule and rows in aligned columns; all but `words` columns are numbers."""
    widths = [max(map(len, column)) for column in zip(header, *rows)]

    def line(cells: Sequence[str]) -> str:
        aligned = [
            cell.ljust(width) if index < words else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(cells, widths))
        ]
        return _GAP.join(aligned).rstrip()

    yield line(header)
    yield "-" * (sum(widths) + len(_GAP) * (len(widths) - 1))
    for row in rows:
        yield line(row)


def counted(count: int, noun: str) -> str:
    """Return a number and a noun, whose plural ends with s."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
