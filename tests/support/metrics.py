"""Metrics of ranks, read as Prometheus reads them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from support.waiting import ENOUGH

LABELS = ("host", "rank", "world_size", "group", "job_id")
"""Labels of each sample of a rank."""
PACKETS = {
    "sent": "switchml_packets_sent_total",
    "answers": "switchml_packets_answered_total",
    "wrong": "switchml_packets_wrong_total",
    "timeouts": "switchml_timeouts_total",
}


@dataclass(frozen=True)
class Metrics:
    """Samples of one file."""

    labels: Mapping[str, str]
    """Labels that each sample has."""
    samples: Mapping[tuple[str, frozenset[tuple[str, str]]], float]
    """Values by name and by the other labels."""
    seen: set[str] = field(default_factory=set)
    """Samples whose values were asked for."""

    def value(self, sample: str, **labels: str) -> float:
        self.seen.add(sample)
        return self.samples[sample, frozenset(labels.items())]

    def check(self, report: Mapping[str, Any], *, rank: int, size: int, state: str) -> None:
        """Check that the samples are consistent, and match the report of the rank."""
        assert (self.labels["rank"], self.labels["world_size"]) == (str(rank), str(size))
        assert self.value("switchml_allreduces_total") == report["calls"]
        assert self.value("switchml_bytes_total") == report["bytes"]
        assert self.value("switchml_other_group_bytes_total") >= 0
        for reason, count in report["fallbacks"].items():
            assert self.value("switchml_gloo_allreduces_total", reason=reason) == count
        for name, sample in PACKETS.items():
            assert self.value(sample) == report["packets"][name]
        assert self.value("switchml_allreduce_seconds_count") == report["calls"]
        assert self.value("switchml_allreduce_seconds_bucket", le="+Inf") == report["calls"]
        assert self.value("switchml_allreduce_seconds_sum") > 0
        assert self.value("switchml_waited_seconds_total") > 0
        over = report["failover"]
        assert self.value("switchml_failovers_total") == over["failovers"]
        assert self.value("switchml_returns_total") == over["returns"]
        assert self.value("switchml_failover_allreduces_total") == over["calls"]
        seconds = self.value("switchml_failover_seconds_total")
        assert seconds == pytest.approx(over["seconds"], rel=1e-3)
        assert 0 < time.time() - self.value("switchml_written_timestamp_seconds") < ENOUGH
        states = [
            (dict(labels)["state"], value)
            for (name, labels), value in self.samples.items()
            if name == "switchml_state"
        ]
        assert [name for name, value in states if value] == [state]
        assert len(states) > 1
        assert {name for name, _ in self.samples} - self.seen == {"switchml_state"}


def parse(text: str) -> Metrics:
    """Parse a page, and check that each sample has a help text and a type."""
    from prometheus_client.parser import text_string_to_metric_families

    samples: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    shared: dict[str, str] = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation, family.name
        assert family.type in {"counter", "gauge", "histogram"}, family.name
        for sample in family.samples:
            shared = {name: sample.labels[name] for name in LABELS if name in sample.labels}
            own = frozenset(sample.labels.items() - shared.items())
            assert (sample.name, own) not in samples, "each sample once"
            samples[sample.name, own] = sample.value
    assert len(samples) == sum(not line.startswith("#") for line in text.splitlines())
    return Metrics(shared, samples)


def read(directory: Path) -> list[Metrics]:
    """Parse the files of a directory, in the order of ranks; it must have no other files."""
    paths = [*directory.iterdir()]
    assert {path.suffix for path in paths} <= {".prom"}
    found = [parse(path.read_text()) for path in paths]
    return sorted(found, key=lambda metrics: int(metrics.labels["rank"]))
