from __future__ import annotations

import re
from pathlib import Path

import pytest

from patchgen.core import recipes
from patchgen.core.patch import pins
from patchgen.core.recipes import Limits
from patchgen.core.wheel.check import advice
from patchgen.core.wheel.check.programs import identify
from patchgen.errors import ToolError

REPOSITORY = Path(__file__).parents[3]
RECIPES = {pin.version: recipes.read(pin) for pin in pins.shipped() if pin.recipe}


def limits(version: str) -> Limits:
    return Limits(version, RECIPES[version].limits)


@pytest.mark.parametrize("version", RECIPES)
@pytest.mark.parametrize(
    ("program", "refused"),
    [
        ("gcc", "6.5.0"),  # our file is C++17
        ("gcc with CUDA", "6.5.0"),
        ("cmake", "3.14.7"),  # switchml.cmake asks for the policies of 3.15
        ("cmake", "4.0.0"),
        ("mkl", "2024.1.0"),
    ],
)
def test_what_none_of_them_builds_with(version: str, program: str, refused: str) -> None:
    assert limits(version).problems(program, refused, "") != ()


def test_what_builds_1_7_1() -> None:
    known = limits("1.7.1")
    for name, version in {
        "python": "3.7.12", "gcc": "10.2.1", "gcc with CUDA": "7.5.0", "cuda": "10.1.243",
        "cmake": "3.18.4", "mkl": "2020.4", "setuptools": "59.8.0", "numpy": "1.21.6",
    }.items():  # fmt: skip
        assert known.problems(name, version, "") == ()


@pytest.mark.parametrize("version", RECIPES)
def test_what_setup_py_imports_and_torch_needs(version: str) -> None:
    assert {"pyyaml", "typing_extensions"} <= set(RECIPES[version].limits)


def least(path: Path) -> dict[str, str]:
    """The least version that is asked for, by package; empty where none is named."""
    pytest.importorskip("yaml", reason="PyYAML comes with the extra `env`")
    from patchgen.core.wheel.conda import spec  # imports yaml

    found = {}
    for text in spec.load(str(path)).dependencies:
        parts = re.fullmatch(r"(?:\w+::)?([\w-]+)(?:>?=([\d.]+))?(?:,?<.*|=\*=\S+)?", text)
        assert parts, text
        found[parts[1]] = parts[2] or ""
    return found


@pytest.mark.parametrize("name", ["environment.yml", "environment-cpu.yml"])
def test_the_environments_are_within_the_limits(name: str) -> None:
    """And have what conda has for DPDK and RDMA."""
    wanted = least(REPOSITORY / name)
    known = limits("1.7.1")
    cuda = "cudatoolkit-dev" in wanted
    assert cuda == (name == "environment.yml")
    assert {package.conda for package in advice.PACKAGES.values() if package.conda} <= {*wanted}
    for limit in known.specifiers:
        package = {"gcc": "gxx_linux-64", "gcc with CUDA": "gxx_linux-64",
                   "cuda": "cudatoolkit-dev", "blas": "mkl-include",
                   "python's exit": "python"}.get(limit, limit)  # fmt: skip
        if cuda or not limit.endswith(("cuda", "CUDA")):
            assert package in wanted
            assert not wanted[package] or known.problems(limit, wanted[package], "") == ()


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
