"""Waits of the delegate and the plugin: the table in docs/design.md, the sources and the tests."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = {
    path.name: path.read_text(encoding="utf-8")
    for room in ("delegate/src", "delegate/include", "patch", "plugin")
    for path in (ROOT / "templates" / room).rglob("*.?pp")
}
WAITING = re.compile(
    r"(\.|->)(wait|wait_for|wait_until|join)\([\w{]|sleep_for\(|\bpoll\(&|\.join\(\);"
)
REAL = "integration/apply/test_delegate_real.py"
LOCKS = "integration/apply/test_delegate_locks.py"


@dataclass(frozen=True)
class Wait:
    """A row of the table: files that wait so, the test that shows an end, and the limit."""

    files: tuple[str, ...]
    test: tuple[str, str]
    """A file of tests/, and the function in it."""
    limits: dict[str, str] = field(default_factory=dict)
    """Words of the row, and what the sources have for them."""


WAITS = {
    "another rank, while a group is made": Wait(
        ("SwitchMLAgreement.hpp", "SwitchMLAllreduce.hpp", "SwitchMLLoader.cpp"),
        ("cpp/agreement.cpp", "missing"),
        {
            "the group's timeout": "? 2 * timeout_ : timeout_;",
            "five seconds": "kLonger = std::chrono::seconds(5)",
        },
    ),
    "the controller's port": Wait(
        ("SwitchMLProbe.hpp", "SwitchMLThreads.hpp"),
        (REAL, "test_a_controller_that_is_not_there"),
        {
            "3 s": "kController = std::chrono::seconds(3)",
            "a quarter": "std::min(limit, timeout / 4)",
        },
    ),
    "an address of the controller's name (`worker_ip = auto`)": Wait(
        ("SwitchMLThreads.hpp",),
        (LOCKS, "test_a_name_is_resolved_in_time"),
        {
            "3 s": "kController = std::chrono::seconds(3)",
            "a quarter": "fillInDpdk(loaded_, between(BringUp::kController, timeout_))",
        },
    ),
    "a core that another rank reserves at the same time": Wait(
        ("names.cpp",),
        ("cpp/strangers.cpp", "contestThatDoesNotEnd"),
        {"1 s": "kLongestContest = std::chrono::seconds(1)"},
    ),
    "the start of the context": Wait(
        ("SwitchMLThreads.hpp", "SwitchMLBringUp.hpp"),
        (REAL, "test_a_library_that_waits_less_long_than_the_group"),
        {
            "`SWITCHML_START_TIMEOUT_MS`": "std::min(startLimit(), limit)",
            "half": "start(timeout_ / 2)",
        },
    ),
    "a sum of the probe": Wait(
        ("SwitchMLReduction.cpp", "SwitchMLLibrary.cpp"),
        (REAL, "test_a_probe_that_does_not_end"),
        {
            "30 s": "kProbe = std::chrono::seconds(30)",
            "a quarter": "std::min(kProbe, timeout_ / 4)",
        },
    ),
    "a context that stops": Wait(
        ("SwitchMLLibrary.cpp",),
        (REAL, "test_a_slow_stop_is_no_missing_rank"),
        {
            "5 s": "kStopForOthers = std::chrono::seconds(5)",
            "1 s": "kStopAfterFailure = std::chrono::seconds(1)",
        },
    ),
    "connections of failover and heartbeat": Wait(
        ("SwitchMLRing.hpp",),
        ("cpp/failover.cpp", "muteRank"),
        {"half of it": ".connect(timeout_ / 2)"},
    ),
    "earlier calls (`Order`)": Wait(("SwitchMLOrder.hpp",), ("cpp/states.cpp", "turns")),
    "values on a device (plugin)": Wait(
        ("Staging.hpp",), ("integration/plugin/test_failures.py", "test_a_device_that_is_late")
    ),
    "a job, or its place in the memory of failover": Wait(
        ("SwitchMLLibrary.cpp", "SwitchMLReduction.cpp", "SwitchMLFailover.hpp"),
        (REAL, "test_a_job_has_a_limit_of_its_own"),
        {"10 s": "kLastAnswers = std::chrono::seconds(10)"},
    ),
    "other ranks after a failure": Wait(
        ("SwitchMLFailover.hpp", "SwitchMLRing.hpp"),
        ("cpp/failover.cpp", "loseNetwork"),
        {"the group's timeout": "changed_.wait_for(lock, limit_"},
    ),
    "the next heartbeat": Wait(("SwitchMLHeartbeat.hpp",), ("cpp/heartbeat.cpp", "leave")),
    "calls that are under way, when a group ends": Wait(
        ("WorkPool.hpp",), ("cpp/work_pool.cpp", "waiting")
    ),
    "helper threads of a group that ends": Wait(
        ("SwitchMLFailover.hpp",),
        ("support/group_tests.py", "test_rank_in_a_message"),
        {"2 s": "kPassedOn = std::chrono::seconds(2)"},
    ),
    "the context, when the process exits": Wait(
        ("SwitchMLInterface.cpp",),
        (REAL, "test_a_slow_start_is_no_missing_rank"),
        {
            "5 s": "kStopAtExit = std::chrono::seconds(5)",
            "a minute": "kExit = std::chrono::minutes(1)",
        },
    ),
    "streams of the program, when the process ends in the delegate": Wait(
        ("SwitchMLInterface.cpp",),
        ("cpp/delegate.cpp", "locked"),
        {"2 s": "kFlush{2}"},
    ),
    "callbacks of works, when the program ends (plugin)": Wait(
        ("WorkPool.hpp", "ProcessGroupSwitchML.cpp"),
        ("cpp/work_pool.cpp", "last"),
        {"30 minutes": "finish(std::chrono::minutes(30))"},
    ),
    "the last metrics": Wait(
        ("SwitchMLMetrics.hpp",),
        ("cpp/metrics.cpp", "stuck"),
        {"2 s": "std::chrono::seconds kLongest{2}"},
    ),
    "a reader of stderr": Wait(
        ("say.hpp",),
        ("cpp/strangers.cpp", "lines"),
        {"1 s": "kLongestLine = std::chrono::seconds(1)"},
    ),
}


@pytest.fixture(scope="module")
def rows() -> dict[str, str]:
    """Limits by what is waited for, from the table."""
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    table = text.partition("| wait for | limit | ended before by |\n|---|---|---|\n")[2]
    cells = [line.split(" | ") for line in table.partition("\n\n")[0].splitlines()]
    return {name.removeprefix("| "): limit for name, limit, *_ in cells}


def test_each_row_has_its_wait(rows: dict[str, str]) -> None:
    assert [*rows] == [*WAITS]


@pytest.mark.parametrize("name", WAITS)
def test_the_limit_is_that_of_the_sources(rows: dict[str, str], name: str) -> None:
    for words, code in WAITS[name].limits.items():
        assert words in rows[name]
        assert any(code in text for text in SOURCES.values()), code


def test_each_source_that_waits_is_in_a_row() -> None:
    waiting = {name for name, text in SOURCES.items() if WAITING.search(text)}
    assert waiting == {name for wait in WAITS.values() for name in wait.files}


@pytest.mark.parametrize("name", WAITS)
def test_a_test_shows_the_end(name: str) -> None:
    path, function = WAITS[name].test
    text = (ROOT / "tests" / path).read_text(encoding="utf-8")
    assert re.search(rf"^ *(def|void) {function}\(", text, re.MULTILINE)
