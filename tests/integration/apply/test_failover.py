"""Failover in C++: a library that is made up dies in each state of the ranks, at any moment.

Its mutants, and those of the heartbeat between ranks, are found.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.delegate import compile_alone, compile_mutants, render

pytestmark = pytest.mark.rebuild

HEADERS = ("recover/ring.hpp", "recover/failover.hpp")
MUTANTS = {
    "no results": ("kResults = kWindow;", "kResults = 0;", "states"),
    "too few results": ("kResults = kWindow;", "kResults = kWindow - 1;", "states"),
    "sums in the place of the inputs": (
        "memory[job] = reinterpret_cast<std::int32_t*>(held[job].get());",
        "memory[job] = rows[job].data();",
        "states",
    ),
    "an input that is prepared too early": (
        "awaitRing(lock);\n    changed_", "prepare(), awaitRing(lock);\n    changed_", "states",
    ),
    "sums not given to the callers": (
        "delegate_.copy(data, memory.get(), bytes);\n    lock.lock();",
        "lock.lock();\n    delegate_.copy(memory.get(), data, bytes);",
        "states",
    ),
    "sums taken after the failure": (
        "    if (state_ != State::kRunning) {\n      return false;\n    }\n    ++finished_;",
        "    ++finished_;",
        "states",
    ),
    "a wider window": ("finished_ + kWindow &&", "finished_ + 2 * kWindow &&", "window"),
    "other jobs first": ("next_ = *most;", "next_ = *most + 1;", "moments"),
    "nobody is told": (
        "sending_.begin([this] { return ring_.send(kWarnings, &cause_, sizeof cause_); });", "",
        "states",
    ),
    "a rank that gives up in silence": ("      warnLast(news);", "", "states"),
    "a last warning that is not passed on": (
        "if (fail(wordsOf(warning.why)) == State::kRunning) {",
        'if (finish(wordsOf(warning.why), "") == State::kRunning) {',
        "gone",
    ),
    "a last warning that is one more": ("if (warning.last != 0) {", "if (false) {", "gone"),
    "no warning after the first": ("        suspend(warning);", "return suspend(warning);", "gone"),
    "a warning in a return that is forgotten": ("if (news) {", "if (false) {", "returns"),
    "half of a message that is awaited": ("collectives_.lose();", "", "gone"),
    "half of a message that is being sent": ("look();\n      }", "}", "gone"),
    "half of a message that is given up": (
        "        await(out_, next(), Clock::now() + kPassedOn);\n", "", "gone",
    ),
    "a message that came too early": (
        "if (aborted_ || now >= end) {",
        "if (aborted_ || now >= end || direction.closed) {",
        "gone",
    ),
    "a closed connection that ends all": (
        "    direction.closed = true;\n    direction.transfer.interrupt();",
        "for (auto* one : {&in_, &out_}) { one->closed = true, one->transfer.interrupt(); }",
        "gone",
    ),
    "a late message that is awaited": ("late = Clock::now() >= end_;", "late = false;", "gone"),
    "calls counted from its own": (
        "for (auto job = next_; job", "for (auto job = finished_; job", "returns",
    ),
    "a return before all sums": ("(next_ == job && received_.empty())", "true", "returns"),
    "a return alone": (
        "if (all[rank].why[0] != '\\0') {",
        "if (static_cast<int>(rank) == rank_ && all[rank].why[0] != '\\0') {",
        "returns",
    ),
    "tries that end": (
        "call >= first && call % first", "call >= first && call <= 4 * first && call % first",
        "returns",
    ),
    "its own seed": ("seed = all[0].seed;", "", "returns"),
    "memory of the old session": ("      slots_ = {};", "", "returns"),
    "memory that stays": ("      slots_ = {};", "", "states"),
    "a second failure that nobody hears": (
        "        recover();\n      } else", "        return recover();\n      } else", "returns",
    ),
    "a rank that waits for another": ("limit_ + kPassedOn", "limit_", "gone"),
    "a silent rank that is awaited": (
        "if (!inTime && missed_.empty()) {", "if (false) {", "gone",
    ),
}  # fmt: skip
MUCH = {"states": "3", "moments": "200", "returns": "40"}
"""Ranks whose states are visited, and seeds."""
MAY_HANG = {
    "other jobs first", "nobody is told", "a rank that gives up in silence",
    "a last warning that is not passed on", "a last warning that is one more",
    "no warning after the first", "a warning in a return that is forgotten",
    "half of a message that is awaited", "half of a message that is being sent",
    "a late message that is awaited", "calls counted from its own",
    "a return before all sums", "a return alone", "memory of the old session",
    "a second failure that nobody hears", "a silent rank that is awaited",
}  # fmt: skip
ALL = {**MUTANTS, "as it is": ("kResults = kWindow;", "kResults = kWindow;", "")}


@pytest.fixture(scope="module")
def mutants(tmp_path_factory: pytest.TempPathFactory) -> Path:
    changes = {name: mutant[:2] for name, mutant in ALL.items()}
    directory = tmp_path_factory.mktemp("mutants")
    included = (
        "base/text.hpp",
        "base/quietly.hpp",
        "wires.hpp",
    )
    return compile_mutants("failover", HEADERS, changes, directory, *included)


def run(
    program: Path, *words: str, limit: float = 300, **much: str
) -> subprocess.CompletedProcess[str]:
    command = [str(program), *words, {**MUCH, **much}.get(words[-1], "")]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit)


@pytest.mark.parametrize("what", ["states", "window", "moments", "returns", "gone"])
def test_what_is_no_mutant_is_right(what: str, mutants: Path) -> None:
    assert run(mutants, "as it is", what).stdout == "ok\n"


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants(name: str, mutants: Path) -> None:
    """Each fails, or waits for ever."""
    try:
        assert run(mutants, name, MUTANTS[name][2], limit=20).returncode != 0
    except subprocess.TimeoutExpired:
        assert name in MAY_HANG


BEAT_HEADERS = ("recover/heartbeat.hpp", "recover/ring.hpp")
BEAT_MUTANTS = {
    "a beat that names nobody": ("Beat{closed, 1}", "Beat{}", "closed"),
    "a silence that is not reported": ("Beat{silent(), 0}", "Beat{}", "silent"),
    "silence that is no end": ("kNobody : before_;", "kNobody : kNobody;", "silent"),
    "silence that is reported with the next beat": (
        "reported_.exchange(gone) != gone) {\n        beatNow();",
        "reported_.exchange(gone) != gone) {",
        "news",
    ),
    "news that do not end the wait": (
        "reported_ != reported;", "(false && reported_ != reported);", "news",
    ),
    "an end that is reported with the next beat": (
        "compare_exchange_strong(nobody, rank)) {\n      beatNow();",
        "compare_exchange_strong(nobody, rank)) {",
        "news",
    ),
    "a silence that is final": ("Beat{silent(), 0}", "Beat{silent(), silent() != kNobody}", "back"),
    "a rank that takes itself for gone": ("== rank_ ? kNobody : ", "== rank_ ? rank_ : ", "back"),
    "a stop that counts as silence": ("silence / 6)", "silence * 6)", "stopped"),
    "beats that are not counted": ("receivedAt_.store(", "static_cast<void>(", "alive"),
    "a closed connection that is no end": ("note(other);", "static_cast<void>(other);", "closed"),
    "a message that outlives its memory": (
        "const auto ended = std::exchange(transfer_, {});",
        "new auto(std::exchange(transfer_, {}));",
        "left",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BEAT_MUTANTS)
def test_mutants_of_the_heartbeat(name: str, tmp_path: Path) -> None:
    before, after, what = BEAT_MUTANTS[name]
    render(tmp_path)
    headers = {path: path.read_text() for path in map(tmp_path.joinpath, BEAT_HEADERS)}
    assert sum(text.count(before) for text in headers.values()) == 1
    for path, text in headers.items():
        path.write_text(text.replace(before, after))
    program = compile_alone("heartbeat", tmp_path, "address")
    assert subprocess.run([program, what], check=False, timeout=300).returncode != 0
