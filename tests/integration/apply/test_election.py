"""Election of the process group that delegates, in C++: all ranks find the same one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.delegate import compile_alone, compile_mutants, render

FILES = ("SwitchMLElection.hpp", "SwitchMLElection.cpp")
MUTANTS = {
    "one vote is enough": ("values.end(), size_)", "values.end(), 1)"),
    "a vote that does not wait for nominations": ("return pending_ == 0 && ", "return "),
    "a nomination after the vote": ("election_.open_ && !election_.voting_ && ", ""),
    "a nomination for another holder": ("open_ && election_.holder_.name == holder_)", "open_)"),
    "candidates in the order of their making": ("one.name < other.name;", "&one < &other;"),
    "a small vote": ("numel >= kLarge && ", "numel > 0 && "),
    "an end that is no candidate's any more": ("own->contexts.clear();", "candidates_.erase(own);"),
    "a failure that closes it": ("open_ = !counted;", "open_ = false;"),
    "an end during the vote": ("return !voting_; }", "return true; }"),
    "the limit of one group": ("std::max(limit, candidate.timeout)", "candidate.timeout"),
}  # fmt: skip


def run(program: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(program), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def test_election(tmp_path: Path) -> None:
    render(tmp_path)
    done = run(compile_alone("election", tmp_path, "thread"))
    assert (done.stdout, done.stderr) == ("ok\n", "")


@pytest.mark.rebuild
def test_mutants(tmp_path: Path) -> None:
    program = compile_mutants("election", FILES, MUTANTS, tmp_path)
    for name in MUTANTS:
        assert "not so: " in run(program, name).stderr, name
