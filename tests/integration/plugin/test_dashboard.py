"""docs/grafana.json and docs/alerts.yml by the real Prometheus, of ranks that lose their switch."""

from __future__ import annotations

import collections
import contextlib
import json
import math
import os
import re
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.chaos.switches import Simulated
from support.launcher import Launcher
from support.pages import run_by
from support.prometheus import ALERTS, Prometheus, monitoring
from support.torch import results
from support.waiting import LIMIT_MS, captured, until

from docs import dashboard, grafana

ROOT = Path(__file__).parents[3]
BOARD: dict[str, Any] = json.loads((ROOT / "docs" / "grafana.json").read_text())
Answer = dict[str, list[tuple[float, float]]]
"""Points of each series by its name: seconds since the begin, and values."""
WORLD = 2
ANSWERS = "SWITCHML_TEST_DASHBOARD"
"""Variable with the file for the answers of a run of two minutes, of which docs/ has a picture."""


def promtool(programs: Path, *arguments: str | Path, text: str | None = None) -> None:
    """Run promtool, which has no complaint."""
    command = [programs / "promtool", *arguments]
    done = captured(command, input=text)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr


def test_alerts(programs: Path) -> None:
    promtool(programs, "check", "rules", ALERTS)
    promtool(programs, "test", "rules", Path(__file__).with_name("alerts.yml"))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Grafana's models need Python 3.11")
def test_grafana_knows_every_key() -> None:
    """Grafana's own models keep the dashboard as it is; they drop a key that they do not know."""
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models.dashboard import Dashboard

    register_default_plugins()
    kept = json.loads(JSONEncoder().encode(Dashboard.from_json(BOARD)))
    assert fill_in(BOARD, kept) == kept


def fill_in(given: Any, defaults: Any) -> Any:
    """Return what is given, with the keys that only the defaults have."""
    if isinstance(given, dict) and isinstance(defaults, dict):
        return {**defaults, **{key: fill_in(one, defaults.get(key)) for key, one in given.items()}}
    if isinstance(given, list) and isinstance(defaults, list) and len(given) == len(defaults):
        return [fill_in(*both) for both in zip(given, defaults)]
    return given


def test_each_query_has_data(
    launch: Launcher, summing: Path, programs: Path, tmp_path: Path
) -> None:
    """While SwitchML sums, while Gloo does, and after the ranks have returned."""
    picture = os.environ.get(ANSWERS)
    pages, stop = tmp_path / "pages", tmp_path / "stop"
    pages.mkdir()
    env = {"SWITCHML_METRICS": str(pages), "SWITCHML_METRICS_SECONDS": "1"}
    env |= {"SWITCHML_FAILOVER": "1", "SWITCHML_TIMEOUT_MS": str(LIMIT_MS)}
    env |= {"SWITCHML_JOB": "" if picture else "job 7"}
    arguments = {"stop": str(stop), "numel": 50_000, "pause": 0.02}
    switch = Simulated(summing, tmp_path / "counters", WORLD)
    begun = time.time()
    with contextlib.closing(switch), monitoring(programs, pages, tmp_path) as prometheus:
        switch.start()
        ranks = launch.begin("steady", WORLD, arguments=arguments, config=switch.config, env=env)
        try:
            wait(prometheus, "rate(switchml_bytes_total[3s]) > 0", 30 if picture else 0)
            if picture:
                with switch.losing(0.05):
                    time.sleep(15)
                time.sleep(10)
            switch.kill()
            wait(prometheus, 'ALERTS{alertname="SwitchMLFailover"}', 15 if picture else 4)
            switch.start()
            wait(prometheus, "switchml_returns_total >= 1", 30 if picture else 0)
        finally:
            stop.touch()
            ended = launch.collect(ranks)
        wait(prometheus, 'switchml_state{state="ended"} == 1', 2)
        results(ended)
        answers = [ask(prometheus, panel, begun) for panel in BOARD["panels"]]
        check_page(prometheus)
        check_variables(prometheus, {"rank": WORLD, "job_id": 0 if picture else 1})
    check(answers)
    page = next(pages.iterdir()).read_text()
    assert dict(re.findall(r"(?m)^# HELP (\S+) (.*)$", page)) == grafana.metrics()
    promtool(programs, "check", "metrics", text=page)
    assert {*re.findall(r'state="(\w+)"', page)} == {*grafana.STATES}
    assert dashboard.picture(answers).count("<polyline ") > len(answers)
    if picture:
        text = json.dumps(answers).replace(socket.gethostname(), "node1")
        Path(picture).parent.mkdir(exist_ok=True)
        Path(picture).write_text(text)


def check_page(prometheus: Prometheus) -> None:
    """Check that Prometheus takes the questions of docs/metrics.md."""
    (block,) = run_by(__file__)
    for line in block.text.splitlines():
        query = line.partition("  #")[0].strip()
        prometheus.get("query", query=query)
        names = re.findall(r"\b(switchml_\w+?)(?:_bucket|_sum|_count)?[\[{]", query)
        assert {*names} <= {*grafana.metrics()}, query


def wait(prometheus: Prometheus, query: str, seconds: float) -> None:
    """Wait until a query has a series of each rank, then some more seconds."""
    until(lambda: prometheus.value(f"count({query})") == WORLD)
    time.sleep(seconds)


def ask(prometheus: Prometheus, panel: Mapping[str, Any], begun: float) -> Answer:
    """Return the points of each series of a panel; each query has one."""
    found = {}
    for target in panel["targets"]:
        query = re.sub(r"\$(job|job_id|host|rank)\b", ".*", target["expr"])
        query = query.replace("$__rate_interval", "4s")
        legend = target["legendFormat"].replace("{{", "{").replace("}}", "}")
        given = {"start": begun, "end": time.time(), "step": 1}
        answer = prometheus.get("query_range", query=query, **given)["result"]
        assert answer, query
        for one in answer:
            points = [(at - begun, float(value)) for at, value in one["values"]]
            finite = [point for point in points if math.isfinite(point[1])]
            assert finite, (query, one["metric"])
            labels = collections.defaultdict(str, one["metric"])
            found[legend.format_map(labels).strip()] = finite
    return found


def check(answers: list[Answer]) -> None:
    """Check that each panel by rank has every rank, and that the states are those of the run."""
    series = dict(zip((panel["title"] for panel in BOARD["panels"]), answers))
    for title, answer in series.items():
        ranks = {name.partition(":")[0] for name in answer if " rank " in name}
        assert len(ranks) in {0, WORLD}, title
    for points in series["State"].values():
        shown = {[*grafana.STATES][int(value)] for _, value in points}
        assert {"delegating", "failover", "ended"} <= shown <= {*grafana.STATES} - {"failed"}
    for points in series["Allreduces by SwitchML"].values():
        shares = [value for _, value in points]
        assert min(shares) < 0.2
        assert max(shares) > 0.8


def check_variables(prometheus: Prometheus, expected: Mapping[str, int]) -> None:
    """Check that each variable of the dashboard has as many values, or one."""
    variables = BOARD["templating"]["list"]
    assert [one["name"] for one in variables] == ["datasource", "job", "job_id", "host", "rank"]
    for one in variables[1:]:
        query = re.sub(r"\$\w+", ".*", one["query"]["query"])
        found = re.fullmatch(r"label_values\((.+), (\w+)\)", query)
        assert found, query
        values = prometheus.get(f"label/{found[2]}/values", **{"match[]": found[1]})
        assert len(values) == expected.get(one["name"], 1)
