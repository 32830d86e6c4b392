"""Counters of a software switch, as columns of a table with a row for each rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_COLUMNS = {
    "received": "packets",
    "summed": "summed",
    "resent": "sent again",
    "answered_again": "answered again",
}
_SELDOM = {"lost": "lost", "answers_lost": "answers lost", "malformed": "malformed"}


def columns(counters: Mapping[str, Any]) -> tuple[Sequence[str], Mapping[int, Sequence[str]]]:
    """Headings, and the cells of each rank that came to the switch.

    Packets are those that came from the rank, and those of them that were summed, that had come
    before, and that were answered once more. What seldom is not 0 is left out where it is.
    """
    workers = counters["workers"]
    seldom = {name: text for name, text in _SELDOM.items() if any(one[name] for one in workers)}
    shown = {**_COLUMNS, **seldom}
    rows = {int(one["rank"]): [f"{one[name]:,}" for name in shown] for one in workers}
    return [*shown.values()], rows
