"""Failover in C++: a library that is made up dies in each state of the ranks, at any moment."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from support.delegate import CPP, STRICT, render

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.integration

FLAGS = {
    "address": ("-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
    "thread": ("-fsanitize=thread",),
}
MUTANTS = {
    "no results": ("kResults = kWindow;", "kResults = 0;", "states"),
    "too few results": ("kResults = kWindow;", "kResults = kWindow - 1;", "states"),
    "inputs not copied before": (
        "delegate_.copy(memory, data, bytes);\n    return memory;",
        "return const_cast<void*>(data);",
        "states",
    ),
    "sums not given to the callers": (
        "delegate_.copy(data, slot.memory.get(), slot.bytes);\n    lock.lock();",
        "lock.lock();\n    delegate_.copy(slot.memory.get(), data, slot.bytes);",
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
        "sending = ring_.send(kWarning, &told_, sizeof told_);", "", "states",
    ),
}  # fmt: skip


def compile_failover(directory: Path, *flags: str) -> Path:
    program = directory / "failover"
    command = ["g++", *STRICT, *flags, f"-I{directory}", str(CPP / "failover.cpp"), "-pthread"]
    subprocess.run([*command, "-o", str(program)], check=True)
    return program


def run(program: Path, what: str, limit: float = 300) -> subprocess.CompletedProcess[str]:
    command = [str(program), what, *(["200"] if what == "moments" else [])]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit)


@pytest.mark.parametrize("sanitizer", FLAGS)
def test_every_state_and_many_moments(sanitizer: str, tmp_path: Path) -> None:
    render(tmp_path)
    program = compile_failover(tmp_path, "-g1", *FLAGS[sanitizer])
    for what in ("states", "window", "moments", "gone"):
        done = run(program, what)
        assert (done.stdout, done.stderr) == ("ok\n", ""), what


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants(name: str, tmp_path: Path) -> None:
    """Each fails, or waits for ever."""
    render(tmp_path)
    before, after, what = MUTANTS[name]
    header = tmp_path / "SwitchMLFailover.hpp"
    text = header.read_text()
    assert text.count(before) == 1
    header.write_text(text.replace(before, after))
    program = compile_failover(tmp_path, "-Wno-error")
    try:
        assert run(program, what, limit=20).returncode != 0
    except subprocess.TimeoutExpired:
        assert name in ("other jobs first", "nobody is told")
