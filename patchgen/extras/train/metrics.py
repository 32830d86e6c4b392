"""Metrics of the ranks of this machine, from the files that these write: cells and lines."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from patchgen.system import tables

DIRECTORY = "SWITCHML_METRICS"
SECONDS = "SWITCHML_METRICS_SECONDS"
HEADINGS = (
    *("rank", "state", "allreduces", "bytes", "by Gloo", "mean ms", "waited s"),
    *("packets", "timeouts", "failovers", "returns"),
)
_NAME = r"switchml-{host}-(\d+)-\d+\.prom"
_SAMPLE = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)")
_STATE = re.compile(r'\bstate="(\w+)"')
_UNKNOWN = "-"


@dataclass(frozen=True)
class Metrics:
    """Metrics of a rank."""

    rank: int
    """Rank in the first process group of its process."""
    state: str
    values: Mapping[str, float]
    """Values by name, without the prefix; those that differ by a label are added."""

    @property
    def mean(self) -> float:
        """Mean time of an allreduce in milliseconds."""
        count = self.values.get("allreduce_seconds_count", 0)
        return 1000 * self.values.get("allreduce_seconds_sum", 0) / count if count else 0.0

    @property
    def waited(self) -> str:
        """Seconds that allreduces waited."""
        return f"{self.values.get('waited_seconds_total', 0):.1f}"

    def count(self, name: str) -> str:
        """Figure that the rank may not know."""
        return f"{self.values[name]:,.0f}" if name in self.values else _UNKNOWN

    @property
    def cells(self) -> Sequence[str]:
        """Cells below `HEADINGS`."""
        return (
            str(self.rank),
            self.state,
            self.count("allreduces_total"),
            self.count("bytes_total"),
            self.count("gloo_allreduces_total"),
            f"{self.mean:.2f}",
            self.waited,
            self.count("packets_sent_total"),
            self.count("timeouts_total"),
            self.count("failovers_total"),
            self.count("returns_total"),
        )

    @property
    def line(self) -> str:
        """Line for people."""
        allreduces = int(self.values.get("allreduces_total", 0))
        told = [
            self.state,
            tables.counted(allreduces, "allreduce"),
            f"{self.count('bytes_total')} bytes",
            f"{self.count('gloo_allreduces_total')} by Gloo",
            f"{self.mean:.2f} ms each",
            f"waited {self.waited} s",
        ]
        if "timeouts_total" in self.values:
            told.append(tables.counted(int(self.values["timeouts_total"]), "timeout"))
        if self.values.get("failovers_total"):
            told.append(tables.counted(int(self.values["failovers_total"]), "failover"))
        if self.values.get("returns_total"):
            told.append(tables.counted(int(self.values["returns_total"]), "return"))
        return f"metrics: rank {self.rank}: {', '.join(told)}"


class Pages:
    """Files in a directory that ranks of this machine write from now on."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._name = re.compile(_NAME.format(host=re.escape(socket.gethostname())))
        self._earlier = {*os.listdir(directory)}

    def read(self) -> list[Metrics]:
        """Metrics of the ranks, in their order. A rank that was started again is there once."""
        newest: dict[int, tuple[float, Metrics]] = {}
        for rank, path in self._files():
            try:
                with open(path, encoding="ascii") as file:
                    written = os.fstat(file.fileno()).st_mtime, parse(rank, file.read())
            except OSError:
                continue  # a newer rank has removed it, or it is somebody else's
            newest[rank] = max(newest.get(rank, written), written, key=lambda one: one[0])
        return [metrics for _, (_, metrics) in sorted(newest.items())]

    def _files(self) -> Iterator[tuple[int, str]]:
        for name in os.listdir(self._directory):
            found = self._name.fullmatch(name)
            if found and name not in self._earlier:
                yield int(found[1]), os.path.join(self._directory, name)


def parse(rank: int, text: str) -> Metrics:
    """Metrics of a rank, from the text of its file."""
    state, values = "", dict[str, float]()
    for line in text.splitlines():
        found = _SAMPLE.fullmatch(line)
        if found is None:
            continue  # a comment
        name, value = found[1].partition("_")[2], float(found[3])
        values[name] = values.get(name, 0) + value
        if name == "state" and value:
            shown = _STATE.search(found[2] or "")
            state = shown[1] if shown else ""
    return Metrics(rank, state, values)
