"""Report of the doctor: a row for each host, the check that fails, and what to do."""

from typing import Any, Iterator

from .checks import CHECKS, Verdict
from .finding import BAD, DOUBTFUL, GOOD

_MARKS = {GOOD: "ok", DOUBTFUL: "?", BAD: "NO"}
_SHOWN = 8  # findings that are printed


def data(verdict: Verdict, times: "dict[str, Any] | None" = None) -> "dict[str, Any]":
    """Return the report as data for JSON."""
    failed = verdict.failed
    first = (verdict.ranks[0].get("attempt", {}).get("report") or {}) if verdict.ranks else {}
    switch = "simulated" if first.get("simulator") else ""
    return {
        "holds": failed is None,
        "check": failed.name if failed else "",
        "advice": failed.advice if failed else "",
        "hosts": _hosts_of(verdict, failed.name) if failed else [],
        "checks": [check.name for check in CHECKS],
        "ranks": [
            {
                "rank": rank["rank"],
                "host": rank["host"],
                "checks": {
                    name: {"state": found[place].state, "words": found[place].words}
                    for name, found in verdict.findings.items()
                },
                "filled_in": (rank.get("attempt", {}).get("report") or {}).get("filled_in", ""),
                "packets": (rank.get("attempt", {}).get("report") or {}).get("packets"),
            }
            for place, rank in enumerate(verdict.ranks)
        ],
        "times": dict(times, switch=switch) if times else None,
    }


def lines(report: "dict[str, Any]") -> "Iterator[str]":
    """Yield the lines of the report for people, from its data."""
    hosts = {}  # type: dict[str, list[Any]]
    for rank in report["ranks"]:
        hosts.setdefault(rank["host"], []).append(rank)
    names = report["checks"]
    rows = [["host", "ranks of it", *names]]
    for host, ranks in hosts.items():
        marks = [_mark([rank["checks"][name]["state"] for rank in ranks]) for name in names]
        rows.append([host, _numbers([rank["rank"] for rank in ranks]), *marks])
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
    for state, title in ((BAD, report["check"]), (DOUBTFUL, "")):
        yield from _findings(report, state, title)
    if report["check"]:
        yield f"what to do: {report['advice']}"
    else:
        yield "all checks hold"
    if report["times"]:
        yield from _times(report["times"])


def _times(times: "dict[str, Any]") -> "Iterator[str]":
    yield ""
    yield f"{'elements':>10}  {'SwitchML ms':>11}  {'Gloo ms':>9}  {'SwitchML Gbit/s':>15}"
    for one in times["sizes"]:
        rate = 32e-9 * one["numel"] / one["switchml"]
        own, gloo = 1e3 * one["switchml"], 1e3 * one["gloo"]
        yield f"{int(one['numel']):>10,}  {own:>11.3f}  {gloo:>9.3f}  {rate:>15.3f}"
    if times["switch"]:
        yield f"the switch is {times['switch']}: these times say nothing about one in a network"
    elif times["min_numel"] is None:
        yield "Gloo is faster at the largest size: leave this job to Gloo, or see what is slow"
    else:
        yield (
            f"SwitchML is faster from {times['min_numel']:,} elements on: "
            f"export SWITCHML_MIN_NUMEL={times['min_numel']}"
        )


def _findings(report: "dict[str, Any]", state: str, check: str) -> "Iterator[str]":
    ranks_by_finding = {}  # type: dict[tuple[str, str], list[Any]]
    for rank in report["ranks"]:
        for name, one in rank["checks"].items():
            if one["state"] == state and check in {"", name}:
                ranks_by_finding.setdefault((name, one["words"]), []).append(rank)
    for (name, words), ranks in list(ranks_by_finding.items())[:_SHOWN]:
        where = sorted({rank["host"] for rank in ranks})
        some = ", ".join(where[:4]) + (", ..." if len(where) > 4 else "")  # noqa: PLR2004
        yield f"{name}: {some}, {_ranks([rank['rank'] for rank in ranks])}: {words}"
    if len(ranks_by_finding) > _SHOWN:
        yield f"and {len(ranks_by_finding) - _SHOWN} more; --json has all"


def _hosts_of(verdict: Verdict, check: str) -> "list[str]":
    found = zip(verdict.ranks, verdict.findings[check])
    return sorted({rank["host"] for rank, one in found if one.state == BAD})


def _mark(states: "list[str]") -> str:
    for state in (BAD, DOUBTFUL, GOOD):
        if state in states:
            return _MARKS[state]
    return "-"


def _ranks(numbers: "list[int]") -> str:
    return ("rank " if len(set(numbers)) == 1 else "ranks ") + _numbers(numbers)


def _numbers(numbers: "list[int]") -> str:
    """Format numbers as ranges, such as "0-3,6"."""
    parts = []  # type: list[list[int]]
    for number in sorted(set(numbers)):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)
