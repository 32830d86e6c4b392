"""Which groups delegate, and what SWITCHML_REQUIRE and SWITCHML_GROUP promise."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from support import messages
from support.delegate import run, sanitized

NUMBERED = re.compile(
    rf"process group of (\d+) ranks: {messages.STAYS}: "
    rf"ranks? ([\d, -]+): group (\d+) of \d+ ranks, and {messages.OTHER_GROUP}\n"
)


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sanitized(tmp_path_factory, "address")


def made(
    program: Path, steps: str, scratch: Path, env: Mapping[int, Mapping[str, str]], size: int
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
    before = made(program, steps, tmp_path / "before", {}, 3)
    assert "hint: " not in "".join(before)
    lines = [line for one in before for line in NUMBERED.findall(one)]
    whole = [int(last) for size, ranks, last in lines if ranks == f"0-{int(size) - 1}"]
    assert whole[:1] == ([number] if number else [])
    if number:
        env = {-1: {"SWITCHML_GROUP": str(number)}}
        assert outcomes(made(program, steps, tmp_path / "named", env, 3))[0] == named


def named(number: int) -> dict[str, str]:
    return {"SWITCHML_GROUP": str(number)}


REQUIRE = {"SWITCHML_REQUIRE": "1"}
SECOND = {**REQUIRE, **named(2)}
NO_LIBRARY = {"NO_LIBRARY": "libgone.so.1"}
DISABLED = {"SWITCHML_DISABLE": "1"}
FIFTH = {**REQUIRE, **named(5)}


class Case(NamedTuple):
    env: Mapping[int, Mapping[str, str]]
    steps: str
    outcomes: str
    """What becomes of the groups of each rank."""
    unmet: Sequence[int] = ()
    """Ranks that have a line at their end."""


REQUIREMENTS = {
    "met": Case({-1: REQUIRE}, "0-1", "delegates, delegates"),
    "met by another group": Case(
        {-1: REQUIRE}, "0-1 0-2 0-1-2", "delegates gloo gloo, delegates gloo, gloo gloo"
    ),
    "met again": Case({-1: REQUIRE}, "0-1 end 0-1", "delegates delegates, delegates delegates"),
    "not met again": Case(
        {-1: REQUIRE}, "0-1-2 end 0-1", "delegates raises, delegates raises, delegates"
    ),
    "met by the second": Case({-1: SECOND}, "0-1 0-1", "gloo delegates, gloo delegates"),
    "met by the second subgroup": Case(
        {-1: SECOND}, "0-1-2 0-1 0-1", "gloo gloo delegates, gloo gloo delegates, gloo", [2]
    ),
    "met by the second group of all": Case(
        {-1: SECOND},
        "0-1-2 0-1 1-2 0-1-2",
        "gloo gloo delegates, gloo gloo gloo delegates, gloo gloo delegates",
    ),
    "met by a subgroup that is the second on both ranks": Case(
        {-1: SECOND},
        "0-1-2 0-1 1-2 0-2",
        "gloo gloo delegates, gloo gloo gloo, gloo gloo delegates",
        [1],
    ),
    "subgroups are the second on some of their ranks": Case(
        {-1: SECOND}, "0-1-2 0-1 1-2", "gloo gloo, gloo gloo gloo, gloo gloo", [0, 1, 2]
    ),
    "the second group of one rank": Case({-1: SECOND}, "0-1 0 0", "gloo gloo raises, gloo", [1]),
    "never made": Case({-1: FIFTH}, "0-1", "gloo, gloo, ", [0, 1]),
    "never made, and others": Case(
        {-1: FIFTH}, "0-1 0-1-2 fork end 0-1", "gloo gloo gloo, gloo gloo gloo, gloo", [0, 1, 2]
    ),
    "never made, on one rank": Case({-1: named(5), 1: REQUIRE}, "0-1", "gloo, gloo", [1]),
    "never made, not required": Case({-1: named(5)}, "0-1", "gloo, gloo"),
    "named 1 and 2": Case({-1: REQUIRE, 1: named(2)}, "0-1 0-1", "raises raises, raises raises"),
    "named 2 and 1": Case({-1: SECOND, 1: named(1)}, "0-1 0-1", "raises raises, raises raises"),
    "named 1 and 2, on rank 0": Case({0: REQUIRE, 1: named(2)}, "0-1", "raises, raises"),
    "named 1 and 2, on rank 1": Case({1: SECOND}, "0-1", "raises, raises"),
    "named 1 and 2, not required": Case({1: named(2)}, "0-1 0-1", "gloo gloo, gloo gloo"),
    "named 2 and no number": Case(
        {-1: SECOND, 1: {"SWITCHML_GROUP": "two"}}, "0-1", "raises, raises"
    ),
    "no library, the first": Case({-1: SECOND, 1: NO_LIBRARY}, "0-1", "gloo, gloo", [0, 1]),
    "no library": Case({-1: SECOND, 1: NO_LIBRARY}, "0-1 0-1", "gloo raises, gloo raises"),
    "no library on rank 0": Case(
        {-1: SECOND, 0: NO_LIBRARY}, "0-1 0-1", "gloo raises, gloo raises"
    ),
    "no library on any rank": Case(
        {-1: {**SECOND, **NO_LIBRARY}},
        "0-1 0-1-2 0-1",
        "gloo gloo raises, gloo gloo raises, gloo",
        [2],
    ),
    "no library, and named 1": Case({0: SECOND, 1: NO_LIBRARY}, "0-1", "raises, raises"),
    "disabled, the first": Case({-1: SECOND, 1: DISABLED}, "0-1", "gloo, gloo", [0, 1]),
    "disabled": Case({-1: SECOND, 1: DISABLED}, "0-1 0-1", "gloo raises, gloo raises"),
    "disabled on all ranks": Case(
        {-1: {**SECOND, **DISABLED}}, "0-1 0-1", "gloo raises, gloo raises"
    ),
    "disabled, and named 1": Case({0: SECOND, 1: DISABLED}, "0-1", "raises, raises"),
    "disabled, required on another rank": Case({0: REQUIRE, 1: DISABLED}, "0-1", "raises, raises"),
}


@pytest.mark.parametrize("case", REQUIREMENTS)
def test_what_is_required(program: Path, case: str, tmp_path: Path) -> None:
    """The group that SWITCHML_GROUP names delegates, or its making raises on all of its ranks."""
    env, steps, expected, unmet = REQUIREMENTS[case]
    size = expected.count(",") + 1
    output = made(program, steps, tmp_path, env, size)
    assert ", ".join(outcomes(output)) == expected, output
    assert [rank for rank in range(size) if messages.UNMET in output[rank]] == [*unmet], output
    assert "".join(output).count(messages.UNMET) == len(unmet), output


def test_the_line_at_the_end(program: Path, tmp_path: Path) -> None:
    output = made(program, "0-1", tmp_path, {-1: {**REQUIRE, **named(5)}}, 2)
    for rank, one in enumerate(output):
        line = f"{messages.UNMET}SWITCHML_GROUP=5 left them all to Gloo\n"
        assert one.endswith(f"\nswitchml: {messages.WARNING.format(rank)}{line}")


def test_ranks_that_name_other_groups(program: Path, tmp_path: Path) -> None:
    output = made(program, "0-1 0-1", tmp_path, {0: named(2)}, 2)[0]
    differs = messages.DIFFERS.format("rank 1: SWITCHML_GROUP=1", 2)
    lines = [line for line in output.splitlines() if "process group" in line]
    first, second = [line.partition(f"{messages.STAYS}: ")[2] for line in lines]
    assert first == f"{differs}; rank 0: {messages.LATER_GROUP.format(1, 2, 2)}"
    assert second == differs
