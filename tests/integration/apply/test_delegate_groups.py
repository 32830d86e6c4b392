"""Which groups delegate, and what SWITCHML_REQUIRE and SWITCHML_GROUP promise."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from support import messages
from support.delegate import run, sanitized

NUMBERED = re.compile(
    rf"process group of (\d+) ranks: {messages.STAYS}: ranks? ([\d, -]+): group (\d+) of \d+ ranks, "
    rf"and {messages.OTHER_GROUP}\n"
)


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sanitized(tmp_path_factory, "address")


def made(
    program: Path, steps: str, scratch: Path, env: Mapping[int, Mapping[str, str]], size: int = 3
) -> list[str]:
    """Let the ranks take steps, and return their stderr; see `grouped` in delegate.cpp."""
    env = {**env, -1: {"STEPS": steps, **env.get(-1, {})}}
    config = {"rank": "auto", "num_workers": "auto"}
    return run(program, "grouped", size, scratch, env=env, config=config)


def outcomes(output: Sequence[str]) -> list[str]:
    """Return what became of the groups of each rank, in their order."""
    return [" ".join(re.findall(r"^group [\d-]+: (\w+)$", one, re.MULTILINE)) for one in output]


@pytest.mark.parametrize(
    ("steps", "number", "named"),
    [
        ("0-1-2 0-1-2", 2, "gloo delegates"),
        ("0-1-2 0-1 0-1-2 0-1-2", 2, "gloo gloo delegates gloo"),
        ("0-1 1-2", None, ""),  # the first of rank 2
        ("0-2 0-1", None, ""),
        ("0-1 0-1 end 0-1", 2, "gloo delegates delegates"),
    ],
)
def test_the_number_to_set(
    program: Path, steps: str, number: int | None, named: str, tmp_path: Path
) -> None:
    """The line of a group that another one keeps from SwitchML says it, if there is one."""
    before = made(program, steps, tmp_path / "before", {})
    assert "hint: " not in "".join(before)
    lines = [line for one in before for line in NUMBERED.findall(one)]
    whole = [int(last) for size, ranks, last in lines if ranks == f"0-{int(size) - 1}"]
    assert whole[:1] == ([number] if number else [])
    if number:
        env = {-1: {"SWITCHML_GROUP": str(number)}}
        assert outcomes(made(program, steps, tmp_path / "named", env))[0] == named
