from __future__ import annotations

import pytest

from patchgen.core import recipes
from patchgen.core.recipes import Limits
from patchgen.core.wheel.check import advice
from patchgen.core.wheel.check.programs import identify
from patchgen.errors import ToolError

LIMITS = Limits("PyTorch 1.7.1", {"gcc": ">=7,<11", "cuda": "==10.1.*", "numpy": "<1.24"})


@pytest.mark.parametrize(
    ("name", "version", "limit", "fits"),
    [
        ("gcc", "7.5.0", None, True),
        ("gcc", "10.2.1", None, True),
        ("gcc", "11.0.0", None, False),
        ("gcc", "6.5.0", None, False),
        ("CUDA", "10.1.243", "cuda", True),
        ("CUDA", "10.2.89", "cuda", False),
        ("numpy", "1:1.21.5-1ubuntu22.04", None, True),
        ("numpy", "1.24.0rc1", None, False),
        ("numpy", "unknown", None, True),
        ("cmake", "99", None, True),
    ],
)
def test_limits(name: str, version: str, limit: str | None, *, fits: bool) -> None:
    expected = f"{name} {version}: PyTorch 1.7.1 builds with {LIMITS.text(limit or name)}; fix it"
    assert LIMITS.problems(name, version, "fix it", limit) == (() if fits else (expected,))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cmake version 3.25.1\n\nCMake suite maintained by Kitware", "3.25.1"),
        ("git version 2.39.5 (Apple Git-154)", "2.39.5"),
        ("1.10.2.git.kitware.jobserver-1", "1.10.2"),
        ("usage: cmake", None),
    ],
)
def test_first_version(text: str, expected: str | None) -> None:
    assert recipes.first(text) == expected


def test_what_is_no_compiler() -> None:
    with pytest.raises(ToolError, match="neither gcc nor clang"):
        identify("hello\n")


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("x: not there", ("x: not there",)),
        ("x: return code 1\n  why\nmore", ("x: return code 1", "why")),
        (
            "x: return code 1\nTraceback (most recent\n  File\nE: why",
            ("x: return code 1", "E: why"),
        ),
    ],
)
def test_lines_of_a_failed_program(output: str, expected: tuple[str, ...]) -> None:
    assert advice.lines(ToolError(output)) == expected
