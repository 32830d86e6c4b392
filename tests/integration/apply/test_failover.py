"""Failover in C++: a library that is made up dies in each state of the ranks, at any moment.

Its mutants, and those of the heartbeat between ranks, are found.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.delegate import compile_alone, compile_mutants, render
from support.simulator import SANITIZERS

pytestmark = pytest.mark.rebuild

SOURCES = (
    "recover/ring.hpp", "recover/ring.cpp", "recover/resume.hpp", "recover/resume.cpp",
    "recover/failover.hpp", "recover/failover.cpp",
)  # fmt: skip
KEPT = (
    "slots_ = std::move(received);",
    "for (auto i = slots_.size(); i-- > 0;) { if (received[i].memory) slots_[i] = received[i]; }",
)
MUTANTS = {
    "no results": ("kResults = kWindow;", "kResults = 0;", "states"),
    "too few results": ("kResults = kWindow;", "kResults = kWindow - 1;", "states"),
    "sums in the place of the inputs": (
        "memory[job] = reinterpret_cast<std::int32_t*>(held[job].get());",
        "memory[job] = rows[job].data();",
        "states",
    ),
    "an input that is prepared too early": (
        "awaitRecovery(lock);\n  // This", "prepare(), awaitRecovery(lock);\n  // This", "states",
    ),
    "sums not given to the callers": (
        "callbacks_.copy(data, memory.get(), bytes);\n  lock.lock();",
        "lock.lock();\n  callbacks_.copy(memory.get(), data, bytes);",
        "states",
    ),
    "sums taken after the failure": (
        "  if (state_ != State::kRunning) {\n    return false;\n  }\n  ++finished_;",
        "  ++finished_;",
        "states",
    ),
    "a wider window": ("finished_ + kWindow &&", "finished_ + 2 * kWindow &&", "window"),
    "other jobs first": ("next_ = *most;", "next_ = *most + 1;", "moments"),
    "nobody is told": (
        "sending_.begin([this] { return ring_.send(kWarnings, &cause_, sizeof cause_); });", "",
        "states",
    ),
    "a rank that aborts in silence": ("    sendFinalWarning(finalWarning);", "", "states"),
    "a final warning that is not forwarded": (
        "if (fail(receivedText(warning.reason)) == State::kRunning) {",
        'if (shutDown(receivedText(warning.reason), "") == State::kRunning) {',
        "gone",
    ),
    "a final warning that is one more": ("if (warning.final != 0) {", "if (false) {", "gone"),
    "no warning after the first": ("      suspend(warning);", "return suspend(warning);", "gone"),
    "a warning in a return that is forgotten": ("if (warning) {", "if (false) {", "returns"),
    "half of a message that is awaited": ("collectives_.losePredecessor();", "", "gone"),
    "half of a message that is being sent": ("pollSuccessor();\n    }", "}", "gone"),
    "half of a message that is abandoned": (
        "      await(out_, successor(), Clock::now() + kHopLimit);\n", "", "gone",
    ),
    "a message that came too early": (
        "if (aborted_ || now >= deadline) {",
        "if (aborted_ || now >= deadline || direction.closed) {",
        "gone",
    ),
    "a closed connection that ends all": (
        "  direction.closed = true;\n  direction.transfer.interrupt();",
        "for (auto* one : {&in_, &out_}) { one->closed = true, one->transfer.interrupt(); }",
        "gone",
    ),
    "a late message that is awaited": (
        "late = Clock::now() >= deadline_;", "late = false;", "gone",
    ),
    "calls counted from its own": (
        "for (auto job = next_; job", "for (auto job = finished_; job", "returns",
    ),
    "a return before all sums": ("(next_ == job && !hasReceived())", "true", "returns"),
    "a return alone": (
        "if (all[rank].reason[0] != '\\0') {", "if (own.reason[0] != '\\0') {",
        "returns",
    ),
    "resume attempts that end": (
        "call >= first && call % first", "call >= first && call <= 4 * first && call % first",
        "returns",
    ),
    "its own seed": ("seed = all[0].seed;", "", "returns"),
    "memory of the old session": (*KEPT, "returns"),
    "memory that stays": (*KEPT, "states"),
    "a second failure that nobody hears": (
        "      recover();\n    } else", "      return recover();\n    } else", "returns",
    ),
    "a rank that waits for another": ("limit_ + kHopLimit", "limit_", "gone"),
    "a silent rank that is awaited": (
        "if (!inTime && lost_.empty()) {", "if (false) {", "gone",
    ),
}  # fmt: skip
MUCH = {"states": "3", "moments": "200", "returns": "40"}
"""Ranks whose states are visited, and seeds."""
MAY_HANG = {
    "other jobs first", "nobody is told", "a rank that aborts in silence",
    "a final warning that is not forwarded", "a final warning that is one more",
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
        "base/mutex.hpp", "base/thread.hpp", "recover/counters.hpp", "recover/messages.hpp",
        "recover/transfer.hpp", "wires.hpp",
    )  # fmt: skip
    return compile_mutants("failover", SOURCES, changes, directory, *included)


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


BEAT_SOURCES = ("recover/heartbeat.cpp", "recover/transfer.cpp")
BEAT_MUTANTS = {
    "a beat that names nobody": ("Beat{closed, 1}", "Beat{}", "closed"),
    "a silence that is not reported": ("Beat{silentRank(), 0}", "Beat{}", "silent"),
    "silence that is no end": ("kNobody : predecessor_;", "kNobody : kNobody;", "silent"),
    "silence that is reported with the next beat": (
        "reported_.exchange(gone) != gone) {\n      wakeSender();",
        "reported_.exchange(gone) != gone) {",
        "news",
    ),
    "news that do not end the wait": (
        "reported_ != reported;", "(false && reported_ != reported);", "news",
    ),
    "an end that is reported with the next beat": (
        "compare_exchange_strong(nobody, rank)) {\n    wakeSender();",
        "compare_exchange_strong(nobody, rank)) {",
        "news",
    ),
    "a silence that is final": (
        "Beat{silentRank(), 0}", "Beat{silentRank(), silentRank() != kNobody}", "back",
    ),
    "a rank that takes itself for gone": ("== rank_ ? kNobody : ", "== rank_ ? rank_ : ", "back"),
    "a stop that counts as silence": ("silence / 6)", "silence * 6)", "stopped"),
    "beats that are not counted": ("receivedAt_.store(", "static_cast<void>(", "alive"),
    "a closed connection that is no end": (
        "noteClosed(other);", "static_cast<void>(other);", "closed",
    ),
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
    sources = {path: path.read_text() for path in map(tmp_path.joinpath, BEAT_SOURCES)}
    assert sum(text.count(before) for text in sources.values()) == 1
    for path, text in sources.items():
        path.write_text(text.replace(before, after))
    program = compile_alone("heartbeat", tmp_path, *SANITIZERS["address"], *sources)
    assert subprocess.run([program, what], check=False, timeout=300).returncode != 0
