"""docs/grafana.json and docs/alerts.yml fit the metrics that a rank writes, and docs/metrics.md."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

from docs import grafana
from patchgen.core.patch import fields

DOCS = Path(__file__).parents[2] / "docs"
ALERTS = yaml.safe_load((DOCS / "alerts.yml").read_text())["groups"][0]["rules"]


def named(text: str) -> set[str]:
    """Names of metrics in queries, without what is added to that of a histogram."""
    return {re.sub("_(bucket|sum|count)$", "", name) for name in re.findall(r"switchml_\w+", text)}


def listed(heading: str) -> set[str]:
    """Names in the first column of the table under a heading of the page."""
    part = (DOCS / "metrics.md").read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", part, re.MULTILINE)
    return {name for row in rows for name in re.findall("`(.*?)`", row)}


def test_dashboard_is_what_its_script_writes() -> None:
    written = (DOCS / "grafana.json").read_text()
    assert written == json.dumps(grafana.dashboard(), indent=2) + "\n", "run make docs"


def test_dashboard_shows_every_metric() -> None:
    queries = [
        target["expr"] for panel in grafana.dashboard()["panels"] for target in panel["targets"]
    ]
    assert named(" ".join(queries)) == {*grafana.metrics()}


def test_dashboard_shows_every_state() -> None:
    (states,) = (one for one in fields.table() if one.metric == "switchml_state")
    assert {*states.label_values} == {*grafana.STATES}


def test_panels_do_not_overlap() -> None:
    cells = [
        (column, row)
        for grid in (panel["gridPos"] for panel in grafana.dashboard()["panels"])
        for column in range(grid["x"], grid["x"] + grid["w"])
        for row in range(grid["y"], grid["y"] + grid["h"])
    ]
    assert len({*cells}) == len(cells)
    assert max(column for column, _ in cells) < grafana.COLUMNS


def test_alerts_are_about_metrics_that_there_are() -> None:
    assert named(" ".join(rule["expr"] for rule in ALERTS)) <= {*grafana.metrics()}


def test_page_lists_every_state_and_alert() -> None:
    assert {*grafana.STATES} <= listed("What is counted")
    assert {rule["alert"] for rule in ALERTS} == listed("A dashboard and alerts")
