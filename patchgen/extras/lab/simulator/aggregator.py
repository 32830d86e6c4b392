"""The simulator's aggregator as a program of its own, and its counters as lines for people."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from patchgen.system import native, tables

PROJECT = native.Project(
    "aggregator", "the aggregator", "switchml-aggregator",
    source=os.path.dirname(os.path.abspath(__file__)), suffixes=(".cc", ".h", ".txt"),
    options=("-DAGGREGATOR=ON",),
)  # fmt: skip
"""Project of the program, which takes --listen, --workers and --json as `simulator serve` does, and
writes `{"listening": "HOST:PORT"}` to stdout once it is ready."""

_WORKER = {"rank": "rank", "joined": "joined", "received": "bytes in", "sent": "bytes out"}


def lines(counters: Mapping[str, Any]) -> Iterator[str]:
    """A table of the workers, where there were any, and a line of the sums.

    Args:
        counters: as the program writes them.
    """
    workers = [worker for worker in counters["workers"] if worker["joined"]]
    if workers:
        rows = [[f"{worker[name]:,}" for name in _WORKER] for worker in workers]
        yield from tables.lines([*_WORKER.values()], rows)
        yield ""
    told = [tables.counted(counters["sessions"], "session")]
    if counters["broken"]:
        told.append(f"{counters['broken']:,} of them ended by a fault")
    told.append(f"{tables.counted(counters['jobs'], 'sum')} of {counters['elements']:,} elements")
    if counters["refused"]:
        told.append(f"{tables.counted(counters['refused'], 'worker')} refused")
    yield ", ".join(told)
