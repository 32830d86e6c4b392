"""Metrics of ranks, read as Prometheus reads them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from patchgen.core.patch import fields
from support.waiting import ENOUGH

LABELS = ("host", "rank", "world_size", "group", "job_id")
"""Labels of each sample of a rank."""


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
        assert keys(report) == keys({**fields.empty_report(), "packets": report["packets"]})
        for name, label, value in expected(report):
            assert self.value(name, **label) == pytest.approx(value, rel=1e-3), name
        assert self.value("switchml_other_group_bytes_total") >= 0
        assert self.value("switchml_allreduce_seconds_count") == report["calls"]
        assert self.value("switchml_allreduce_seconds_bucket", le="+Inf") == report["calls"]
        assert self.value("switchml_allreduce_seconds_sum") > 0
        assert self.value("switchml_waited_seconds_total") > 0
        assert 0 < time.time() - self.value("switchml_written_timestamp_seconds") < ENOUGH
        states = [
            (dict(labels)["state"], value)
            for (name, labels), value in self.samples.items()
            if name == "switchml_state"
        ]
        assert [name for name, value in states if value] == [state]
        assert len(states) > 1
        assert {name for name, _ in self.samples} - self.seen == {"switchml_state"}


def keys(report: Mapping[str, Any]) -> set[str]:
    """Return the keys of a report as the table of fields has them."""
    found = {one.key for one in fields.table()}
    return {
        f"{outer}.{inner}" if f"{outer}.{inner}" in found else outer
        for outer, value in report.items()
        for inner in (value if isinstance(value, dict) and value else [""])
    }


def expected(report: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, str], float]]:
    """Yield the samples of all metrics that are in the report too: name, label and value."""
    for one in fields.table():
        if one.key and one.metric:
            outer, _, inner = one.key.partition(".")
            value = report[outer][inner] if inner else report[outer]
            if one.label:
                yield from (
                    (one.metric, {one.label: name}, value[name]) for name in one.label_values
                )
            else:
                yield one.metric, {}, value


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
