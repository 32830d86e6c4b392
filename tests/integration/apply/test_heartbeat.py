"""The heartbeat between ranks in C++: mutants, which tests/cpp/heartbeat.cpp finds."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.delegate import compile_alone, render

pytestmark = pytest.mark.rebuild

HEADERS = ("recover/SwitchMLHeartbeat.hpp", "recover/SwitchMLRing.hpp")
MUTANTS = {
    "a beat that names nobody": ("Beat{closed, 1}", "Beat{}", "closed"),
    "a silence that is not reported": ("Beat{silent(), 0}", "Beat{}", "silent"),
    "silence that is no end": ("kNobody : before_;", "kNobody : kNobody;", "silent"),
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


def run(program: Path, what: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, what], capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants(name: str, tmp_path: Path) -> None:
    before, after, what = MUTANTS[name]
    render(tmp_path)
    headers = {path: path.read_text() for path in map(tmp_path.joinpath, HEADERS)}
    assert sum(text.count(before) for text in headers.values()) == 1
    for path, text in headers.items():
        path.write_text(text.replace(before, after))
    assert run(compile_alone("heartbeat", tmp_path, "address"), what).returncode != 0
