"""Processor time of each test, with that of all processes that it starts.

`--durations` shows elapsed time, which here is that of the neighbours: several processes share the
processors, and most tests wait for compilers and ranks.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

import pytest

from support.waiting import descendants

_PROPERTY = "processor seconds"
_CLOCK = os.sysconf("SC_CLK_TCK")
_spent = pytest.StashKey[float]()


def add_options(parser: pytest.Parser) -> None:
    parser.addoption(
        "--costs", type=int, default=0, metavar="N",
        help="show the N setups, calls and teardowns of tests that take most processor time",
    )  # fmt: skip


def spent() -> float:
    """Return the processor time of this process and its descendants so far, in seconds.

    A process that ended under another parent than its own is missing.
    """
    return sum(os.times()[:4]) + sum(map(_of_process, descendants(os.getpid())))


def _of_process(pid: int) -> float:
    """Return the processor time of a process and of its children that have ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return sum(map(int, fields[11:15])) / _CLOCK


def start(config: pytest.Config) -> None:
    if config.getoption("--costs"):
        config.stash[_spent] = spent()


def charge(config: pytest.Config, report: pytest.TestReport) -> None:
    """Add to a report what was spent since the one before."""
    if _spent in config.stash:
        now = spent()
        report.user_properties.append((_PROPERTY, now - config.stash[_spent]))
        config.stash[_spent] = now


def show(terminal: pytest.TerminalReporter) -> None:
    wanted = terminal.config.getoption("--costs")
    if not wanted:
        return
    found = sorted(_costs(terminal), reverse=True)
    terminal.section(f"{wanted} dearest of {sum(cost for cost, _ in found):.0f} s processor time")
    for cost, what in found[:wanted]:
        terminal.write_line(f"{cost:.2f}s {what}")


def _costs(terminal: pytest.TerminalReporter) -> Iterable[tuple[float, str]]:
    for reports in terminal.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                for name, value in report.user_properties:
                    if name == _PROPERTY and isinstance(value, float):
                        yield value, f"{report.when:8} {report.nodeid}"
