"""Counters of a software switch, as tables, and as columns of a table of ranks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from patchgen.system import tables

_WORKER = {
    "rank": "rank",
    "received": "received",
    "summed": "summed",
    "resent": "sent again",
    "answered": "answered",
    "answered_again": "answered again",
    "malformed": "malformed",
    "lost": "lost",
    "answers_lost": "answers lost",
}
_SET = {
    "set": "set",
    "received": "received",
    "summed": "summed",
    "resent": "sent again",
    "complete": "complete",
    "answered_again": "answered again",
}
_PORT = {"port": "port", "received": "frames in", "sent": "frames out", "no_room": "no room"}
_BY_RANK = {
    "received": "packets",
    "summed": "summed",
    "resent": "sent again",
    "answered_again": "answered again",
}
_SELDOM = {"lost": "lost", "answers_lost": "answers lost", "malformed": "malformed"}


def lines(counters: Mapping[str, Any]) -> Iterator[str]:
    """Yield tables of the workers, of the two sets of slots and of the ports."""
    if counters["workers"]:
        yield from _table(_WORKER, counters["workers"])
        yield ""
        yield from _table(_SET, counters["sets"])
        yield ""
    yield from _table(_PORT, counters["ports"])
    if counters["foreign"]:
        yield f"frames of workers that have not joined: {counters['foreign']:,}"
    if counters["duplicated"] or counters["overtaken"]:
        yield (
            f"delivered twice: {counters['duplicated']:,}, after later ones: "
            f"{counters['overtaken']:,} (seed {counters['seed']})"
        )


def columns(counters: Mapping[str, Any]) -> tuple[Sequence[str], Mapping[int, Sequence[str]]]:
    """Return headings, and the cells of each rank that sent packets to the switch.

    The columns count packets from the rank: all, summed, received before, and answered again.
    Counters in `_SELDOM` are left out if they are 0 for all ranks.
    """
    workers = counters["workers"]
    seldom = {name: text for name, text in _SELDOM.items() if any(one[name] for one in workers)}
    shown = {**_BY_RANK, **seldom}
    rows = {int(one["rank"]): [f"{one[name]:,}" for name in shown] for one in workers}
    return [*shown.values()], rows


def _table(columns: Mapping[str, str], items: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    rows = [[_cell(item[name]) for name in columns] for item in items]
    return tables.lines([*columns.values()], rows)


def _cell(value: int | str) -> str:
    return f"{value:,}" if isinstance(value, int) else value
