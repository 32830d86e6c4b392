"""Writes docs/grafana.json: a dashboard for Grafana that shows every metric of a rank.

python docs/grafana.py > docs/grafana.json
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any, NamedTuple

from patchgen.core.patch import fields

STATES = {
    "ended": "#8e8e8e",
    "delegating": "#009E73",
    "gloo": "#56B4E9",
    "failover": "#E69F00",
    "failed": "#D55E00",
}
"""Colours of the states. Panels number the states from 0 and show the highest of a rank."""
COLUMNS = 24
"""Columns of every dashboard of Grafana."""
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
_RANK = "{{job_id}} {{host}} rank {{rank}}"
_EACH = "job_id, host, rank"
_CHOSEN = 'job=~"$job", job_id=~"$job_id", host=~"$host"'


def metrics() -> dict[str, str]:
    """Return the help of each metric by its name."""
    return {field.metric: field.help for field in fields.table() if field.metric}


class Panel(NamedTuple):
    """Panel of the dashboard."""

    title: str
    unit: str
    """Unit by Grafana's name for it."""
    queries: dict[str, str]
    """Queries by the names of their series."""
    kind: str = "timeseries"
    width: int = 12
    """Columns."""
    height: int = 8
    """Rows, which are as high as the columns are wide."""

    def json(self, identity: int, x: int, y: int) -> dict[str, Any]:
        """Return the panel as Grafana's JSON, with its left column and upper row."""
        names = re.findall(r"\b(switchml_\w+?)(?:_bucket|_sum|_count)?\{", str(self.queries))
        known = metrics()
        instant = self.kind == "stat"
        return {
            "id": identity,
            "type": self.kind,
            "title": self.title,
            "description": "\n\n".join(f"`{name}`: {known[name]}" for name in dict.fromkeys(names)),
            "datasource": _DATASOURCE,
            "gridPos": {"x": x, "y": y, "w": self.width, "h": self.height},
            "fieldConfig": {"defaults": {"unit": self.unit, **_FIELDS[self.kind]}, "overrides": []},
            "options": _OPTIONS[self.kind],
            "targets": [
                {
                    "refId": letter,
                    "datasource": _DATASOURCE,
                    "expr": query,
                    "legendFormat": name,
                    "instant": instant,
                    "range": not instant,
                }
                for letter, (name, query) in zip("ABCDE", self.queries.items())
            ],
        }


_FIELDS: dict[str, dict[str, Any]] = {
    "stat": {},
    "state-timeline": {
        "mappings": [
            {
                "type": "value",
                "options": {
                    str(number): {"index": number, "text": state, "color": color}
                    for number, (state, color) in enumerate(STATES.items())
                },
            }
        ]
    },
    "timeseries": {"min": 0, "custom": {"fillOpacity": 8, "showPoints": "never"}},
}
_OPTIONS: dict[str, dict[str, Any]] = {
    "stat": {
        "reduceOptions": {"calcs": ["lastNotNull"]},
        "textMode": "value_and_name",
        "graphMode": "none",
        "colorMode": "none",
    },
    "state-timeline": {"showValue": "never", "mergeValues": True},
    "timeseries": {"tooltip": {"mode": "multi", "sort": "desc"}},
}


def _select(name: str, more: str = "") -> str:
    return f'switchml_{name}{{{_CHOSEN}, rank=~"$rank"{more}}}'


def _rate(name: str, labels: str = _EACH) -> str:
    return f"sum by ({labels}) (rate({_select(name)}[$__rate_interval]))"


def _share(labels: str) -> str:
    """Return the query of the part of all allreduces that SwitchML has summed."""
    kinds = ("allreduces_total", "gloo_allreduces_total", "failover_allreduces_total")
    return f"{_rate(kinds[0], labels)} / ({' + '.join(_rate(kind, labels) for kind in kinds)})"


def panels() -> list[Panel]:
    """Return the panels in the order of reading."""
    # A process that was killed leaves its last file, which is not its state any more.
    age = f"time() - {_select('written_timestamp_seconds')}"
    fresh = f"and ignoring (state) ({age} < 60)"
    states = [_select("state", f', state="{state}"') for state in STATES]
    numbers = " or ".join(f"{number} * {state}" for number, state in enumerate(states))
    buckets = _rate("allreduce_seconds_bucket", "le")
    times = _rate("allreduce_seconds_sum", ""), _rate("allreduce_seconds_count", "")
    failovers, returns = (_select(f"{name}_total") for name in ("failovers", "returns"))
    reasons = {
        "{{reason}}": _rate("gloo_allreduces_total", "reason"),
        "after a failure": _rate("failover_allreduces_total", ""),
    }
    durations = {
        "mean": " / ".join(times),
        "median": f"histogram_quantile(0.5, {buckets})",
        "99th percentile": f"histogram_quantile(0.99, {buckets})",
    }
    packets = {name: _rate(f"packets_{name}_total", "") for name in ("sent", "answered", "wrong")}
    events = {
        f"{_RANK}: failovers": f"max by ({_EACH}) ({failovers})",
        f"{_RANK}: returns": f"max by ({_EACH}) ({returns})",
    }
    lost = {_RANK: f"max by ({_EACH}) ({_select('failover_seconds_total')})"}
    current = {"{{state}}": f"sum by (state) ({_select('state')} {fresh})"}
    once = {"all groups": f"sum(max by (group) ({failovers}))"}
    highest = {_RANK: f"max by ({_EACH}) (({numbers}) {fresh})"}
    return [
        Panel("Ranks", "none", current, "stat", 9, 4),
        Panel("Allreduces by SwitchML", "percentunit", {"all ranks": _share("")}, "stat", 5, 4),
        Panel("Bytes by SwitchML", "Bps", {"all ranks": _rate("bytes_total", "")}, "stat", 5, 4),
        Panel("Failovers", "none", once, "stat", 5, 4),
        Panel("State", "none", highest, "state-timeline", COLUMNS),
        Panel("Allreduces by SwitchML", "percentunit", {_RANK: _share(_EACH)}),
        Panel("Allreduces by Gloo, by reason", "ops", reasons),
        Panel("Bytes by SwitchML", "Bps", {_RANK: _rate("bytes_total")}),
        Panel("Bytes by Gloo in another group", "Bps", {_RANK: _rate("other_group_bytes_total")}),
        Panel("Time of an allreduce", "s", durations),
        Panel("Seconds of waiting, each second", "none", {_RANK: _rate("waited_seconds_total")}),
        Panel("Packets", "pps", packets),
        Panel("Timeouts", "ops", {_RANK: _rate("timeouts_total")}),
        Panel("Failovers and returns", "none", events),
        Panel("Time over Gloo after failures", "s", lost),
        Panel("Age of the metrics", "s", {_RANK: f"min by ({_EACH}) ({age})"}, width=COLUMNS),
    ]


def _variable(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": _DATASOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,  # when the time range changes
        "sort": 3,  # as numbers
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana's JSON."""
    placed: list[dict[str, Any]] = []
    x = y = height = 0
    for number, panel in enumerate(panels(), 1):
        if x + panel.width > COLUMNS:
            x, y = 0, y + height
        placed.append(panel.json(number, x, y))
        x, height = x + panel.width, panel.height
    return {
        "uid": "switchml",
        "title": "SwitchML",
        "tags": ["switchml", "pytorch"],
        "schemaVersion": 36,  # of Grafana 10; newer ones take it
        "editable": True,
        "graphTooltip": 1,  # one crosshair for all panels
        "time": {"from": "now-30m", "to": "now"},
        "refresh": "30s",
        "templating": {
            "list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus"},
                _variable("job", "label_values(switchml_state, job)"),
                _variable("job_id", 'label_values(switchml_state{job=~"$job"}, job_id)'),
                _variable(
                    "host", 'label_values(switchml_state{job=~"$job", job_id=~"$job_id"}, host)'
                ),
                _variable("rank", f"label_values(switchml_state{{{_CHOSEN}}}, rank)"),
            ]
        },
        "panels": placed,
    }


if __name__ == "__main__":
    json.dump(dashboard(), sys.stdout, indent=2)
    sys.stdout.write("\n")
