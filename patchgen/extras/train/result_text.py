"""Text of a result: lines for people, data for JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from patchgen.core.verify import exits
from patchgen.errors import CheckError
from patchgen.extras.lab.switch.counters import columns
from patchgen.extras.train.results import RankReport, Result
from patchgen.extras.train.setup import SIMULATED, Setup
from patchgen.extras.train.variants import STOCK
from patchgen.system import tables
from patchgen.system.program import name_signal

NOTHING = "nothing was delegated"
_HIDING = (
    "it is hidden by python -I, -E or -S, by a cleared environment (env -i, sudo, a container), by "
    "another sitecustomize.py before it, or by a TMPDIR that the ranks cannot see"
)
REASONS = {
    "no group": "no process group was made by torch.distributed.init_process_group",
    "unhooked": f"the hook of run was not reached in {{}}; {_HIDING}",
    "lost": "the reports are lost, since {} was removed while the ranks ran",
    "elsewhere": "another torch was imported, of {}, not {}; name its interpreter with --torch",
    "backend": "the process group's backend is {}; SwitchML needs gloo",
    "makers": "{} made process groups; SwitchML is in those that torch.distributed makes",
    "one rank": "the process group has 1 rank, so there is nothing to sum",
    "given up": "SwitchML was given up: {}",
    "failed": "SwitchML failed in the first allreduce",
    "left": "every allreduce was left to Gloo: {}",
    "no call": "no allreduce was called",
}
"""Reasons why nothing was delegated, by a short name. A group that stays with Gloo has its own."""
_BY = {"numel": "size", "op": "operation", "dtype": "type", "tensors": "number of tensors"}
"""Words for the reasons why a call stays with Gloo, by counter."""
_FAILOVER = {
    "failovers": ("failovers", ","),
    "after a failure": ("calls", ","),
    "jobs redone": ("redone", ","),
    "seconds": ("seconds", ".1f"),
    "returns": ("returns", ","),
}
"""Columns of the table after a failover: the counter in a report, and its format."""


def data(result: Result) -> dict[str, Any]:
    """Return the result as data for JSON."""
    setup = result.setup
    return {
        "torch": setup.torch.version,
        "python": setup.torch.python,
        "variant": setup.variant,
        "simulated": setup.simulated,
        "notes": list(setup.notes),
        "lab": result.counters,
        "code": result.code,
        "failed": {str(rank): code for rank, code in result.failed.items()},
        "delegated": result.delegated,
        "reason": reason(result),
        "ranks": [
            {
                "rank": rank.rank,
                "world": rank.world,
                "backend": rank.backend,
                "group": rank.group,
                "final": rank.final,
                "report": rank.report,
            }
            for rank in result.ranks
        ],
    }


def failures(result: Result) -> Iterator[str]:
    """Yield a line for each rank that failed."""
    for rank, code in result.failed.items():
        end = f"failed with exit code {code}" if code >= 0 else f"was ended by {name_signal(-code)}"
        yield f"rank {rank} {end}"


def lines(result: Result) -> Iterator[str]:
    """Yield the lines that show the result to people."""
    yield from failures(result)
    setup = result.setup
    if any(-code in exits.CRASHES for code in result.failed.values()):
        yield from filter(None, [exits.cause(setup.torch)])
    yield f"torch {setup.torch.version}: {setup.title}{_switch(setup)}"
    counted = [rank for rank in result.ranks if rank.report is not None]
    if counted:
        yield from _table(counted, result)
    elif result.counters is not None:
        headings, rows = columns(result.counters)
        yield from tables.lines(["rank", *headings], [[str(r), *rows[r]] for r in sorted(rows)])
    why = reason(result)
    if why:
        refused = result.code == CheckError.exit_code and not result.failed
        done = "nothing was reported" if result.silent else NOTHING
        yield f"{'error: --require' if refused else 'warning'}: {done}: {why}"


def _switch(setup: Setup) -> str:
    if setup.switch is not None:
        return "; the switch is in software"
    return f"; {SIMULATED}" if setup.simulated else ""


def _table(ranks: Sequence[RankReport], result: Result) -> Iterator[str]:
    """Yield the table of the ranks: the counters of each torch, then of the software switch."""
    counters = result.counters
    headings, packets = columns(counters) if counters is not None else ((), {})
    reports = [rank.report or {} for rank in ranks]
    failed = any(_failover(report)["failovers"] for report in reports)
    reasons = [
        name for name in reports[0]["fallbacks"] if any(r["fallbacks"][name] for r in reports)
    ]
    fallen = [f"Gloo: {name}" for name in reasons]
    counted = _packets(reports)
    over = _FAILOVER if failed else {}
    titles = ["allreduces delegated", "bytes", *over, *fallen, *counted.values(), *headings]
    rows = [
        [
            str(rank.rank) + ("" if rank.final else "*"),
            *(f"{number:,}" for number in rank.delegated),
            *(format(_failover(report)[name], style) for name, style in over.values()),
            *(f"{report['fallbacks'][name]:,}" for name in reasons),
            *(f"{(report.get('packets') or {}).get(name, 0):,}" for name in counted),
            *packets.get(rank.rank, ["0"] * len(headings)),
        ]
        for rank, report in zip(ranks, reports)
    ]
    yield from tables.lines(["rank", *titles], rows)
    if failed:
        why = next(filter(None, (_failover(report)["reason"] for report in reports)), "")
        yield f"warning: SwitchML failed, and the ranks went on over Gloo: {why}"
    if not all(rank.final for rank in ranks):
        yield "* ended by a signal: its counters are from when it last made or destroyed a group"


def _packets(reports: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return headings of the client library's packet counters that are not 0 on all ranks."""
    named = {
        "sent": "packets sent",
        "answers": "answered",
        "wrong": "wrong",
        "timeouts": "timeouts",
    }
    known = [report.get("packets") or {} for report in reports]
    return {name: text for name, text in named.items() if any(one.get(name) for one in known)}


def _failover(report: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a rank's counters of failovers, 0 for a torch that an older version patched."""
    none = {"failovers": 0, "returns": 0, "reason": "", "redone": 0, "calls": 0, "seconds": 0}
    return {**none, **report.get("failover", {})}


def reason(result: Result) -> str:
    """Return why nothing was delegated; empty if something was, or was not wanted."""
    if result.delegated or (result.setup.variant == STOCK and not result.lost):
        return ""
    if result.silent:
        return _silence(result)
    left = any(sum(rank.report["fallbacks"].values()) for rank in result.ranks if rank.report)
    if result.makers and not left:
        return REASONS["makers"].format(" and ".join(result.makers))
    if result.ranks:
        return _group_reason(result.ranks[0])
    if result.elsewhere:
        return REASONS["elsewhere"].format(", ".join(result.elsewhere), result.setup.torch.root)
    return REASONS["no group"]


def _silence(result: Result) -> str:
    if result.lost:
        return REASONS["lost"].format(result.lost)
    return REASONS["unhooked"].format(", ".join(result.unhooked))


def _group_reason(rank: RankReport) -> str:
    if rank.world == 1:
        return REASONS["one rank"]
    if not rank.group or rank.report is None:
        return REASONS["backend"].format(rank.backend)
    if rank.report["failure"]:
        return REASONS["given up"].format(rank.report["failure"])
    if _failover(rank.report)["failovers"]:
        return REASONS["failed"]
    counts = rank.report["fallbacks"]
    left = ", ".join(f"{counts[name]} by {_BY.get(name, name)}" for name in counts if counts[name])
    if counts["group"] or rank.reason:
        return rank.group
    return REASONS["left"].format(left) if left else REASONS["no call"]
