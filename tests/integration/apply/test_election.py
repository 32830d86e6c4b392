"""Election of the process group that delegates, in C++: all ranks find the same one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.delegate import compile_alone, render

SOURCE = "SwitchMLElection.cpp"
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


def test_election(tmp_path: Path) -> None:
    render(tmp_path)
    program = compile_alone("election", tmp_path, "thread")
    done = subprocess.run([program], capture_output=True, text=True, check=False, timeout=300)
    assert (done.stdout, done.stderr) == ("ok\n", "")


@pytest.mark.rebuild
@pytest.mark.parametrize("name", MUTANTS)
def test_mutants(name: str, tmp_path: Path) -> None:
    before, after = MUTANTS[name]
    render(tmp_path)
    source = tmp_path / SOURCE
    assert source.read_text().count(before) == 1
    source.write_text(source.read_text().replace(before, after))
    program = compile_alone("election", tmp_path, "address")
    done = subprocess.run([program], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode != 0
