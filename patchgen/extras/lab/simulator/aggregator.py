"""The simulator's aggregator as a program, and its counters as lines for people."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from patchgen.extras.lab import HEADERS
from patchgen.system import native, tables

PROJECT = native.Project(
    "aggregator", "the aggregator", "switchml-aggregator",
    source=os.path.dirname(os.path.abspath(__file__)), suffixes=(".cc", ".h", ".txt"),
    shared=(HEADERS,), options=("-DAGGREGATOR=ON",),
)  # fmt: skip
"""Program with the options of `simulator serve`, which prints `{"listening": "HOST:PORT"}`."""

_WORKER = {"rank": "rank", "joined": "joined", "received": "bytes in", "sent": "bytes out"}


def lines(counters: Mapping[str, Any]) -> Iterator[str]:
    """Yield a table of the workers, and a line about the sums."""
    workers = [worker for worker in counters["workers"] if worker["joined"]]
    if workers:
        rows = [[f"{worker[name]:,}" for name in _WORKER] for worker in workers]
        yield from tables.lines([*_WORKER.values()], rows)
        yield ""
    counts = [tables.counted(counters["sessions"], "session")]
    if counters["broken"]:
        counts.append(f"{counters['broken']:,} of them ended by a fault")
    counts.append(f"{tables.counted(counters['jobs'], 'sum')} of {counters['elements']:,} elements")
    if counters["refused"]:
        counts.append(f"{tables.counted(counters['refused'], 'worker')} refused")
    yield ", ".join(counts)
