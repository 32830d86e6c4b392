"""pyproject.toml: what the extras ask for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
BLOCK = TEXT.split("[project.optional-dependencies]")[1].split("\n[")[0]
EXTRAS = {
    name: [Requirement(text) for text in re.findall(r'"([^"]+)"', body)]
    for name, body in re.findall(r"^(\w+) = \[(.*?)\]$", BLOCK, re.MULTILINE | re.DOTALL)
}


def test_an_extra_is_spelled_out() -> None:
    """The pip 20.3 of Debian 11 cannot resolve an extra that names the package itself."""
    assert {"build", "bundle", "dev", "env", "plots"} == set(EXTRAS)
    names = {canonicalize_name(one.name) for extra in EXTRAS.values() for one in extra}
    assert "switchml-patch" not in names


@pytest.mark.parametrize(
    ("whole", "part"),
    [("build", "env"), ("dev", "build"), ("dev", "bundle"), ("dev", "env"), ("dev", "plots")],
)
def test_an_extra_has_all_of_another(whole: str, part: str) -> None:
    there = {one.name: one for one in EXTRAS[whole]}
    for wanted in EXTRAS[part]:
        found = there[wanted.name]
        assert (found.specifier, found.marker) == (wanted.specifier, wanted.marker)
