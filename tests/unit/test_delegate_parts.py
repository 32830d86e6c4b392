"""The parts of the delegate library, by what their files include."""

from __future__ import annotations

import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "templates" / "delegate" / "src"
PLUGIN = SOURCES.parents[1] / "plugin"
DESIGN = Path(__file__).parents[2] / "docs" / "design.md"
PARTS = ("base", "host", "join", "recover", "sum", "report", "")
"""From the lowest to the top, which makes the whole of them."""
FILES = sorted(path.relative_to(SOURCES).as_posix() for path in SOURCES.rglob("*.?pp"))
PARTS_UNIT, UNIT = "parts.cpp", "unity.cpp"
"""The sources that need no client library, and all, each compiled as one."""
UNITS = (PARTS_UNIT, UNIT)


def includes(name: str) -> tuple[str, ...]:
    text = (SOURCES / name).read_text(encoding="utf-8")
    found = re.findall(r'^#include "(.+)"$', text, re.MULTILINE)
    return tuple(one for one in found if one in FILES)


def part(name: str) -> str:
    return name.rpartition("/")[0]


@pytest.mark.parametrize("name", [name for name in FILES if name not in UNITS])
def test_a_part_includes_itself_and_lower_ones(name: str) -> None:
    allowed = PARTS[: PARTS.index(part(name)) + 1]
    assert [one for one in includes(name) if part(one) not in allowed] == []
    assert not [one for one in includes(name) if one.endswith(".cpp")], "nobody sees the whole"


def test_no_include_runs_round() -> None:
    TopologicalSorter({name: includes(name) for name in FILES}).prepare()


def test_all_sources_are_compiled() -> None:
    sources = [name for name in FILES if name.endswith(".cpp")]
    assert sorted([*includes(UNIT), *includes(PARTS_UNIT), UNIT]) == sources


def test_threads_have_names_and_stand_in_the_design() -> None:
    paths = [*SOURCES.rglob("*.?pp"), *PLUGIN.rglob("*.?pp")]
    text = {path: path.read_text(encoding="utf-8") for path in paths}
    named = set(re.findall(r'start\w+\(\s*"(swml-[^"]+)"', "".join(text.values())))
    assert max(map(len, named)) < 16, "the kernel's limit"
    unnamed = re.compile(r"std::(thread|async)[({]|pthread_create")
    assert [path for path in paths if unnamed.search(text[path])] == [SOURCES / "base/thread.hpp"]
    design = DESIGN.read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(swml-.+?)` \|", design, re.MULTILINE)) == named
