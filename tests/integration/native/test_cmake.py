"""What programs leave behind that compile for us."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from patchgen.errors import OptionsError, ToolError
from patchgen.system.native import cmake
from patchgen.system.native.cmake_variables import DROPPED

# A compiler that is killed leaves such a file.
PROJECT = b"""
cmake_minimum_required(VERSION 3.5)
project(leaves NONE)
execute_process(COMMAND sh -c "mktemp -t ccXXXXXX.s" RESULT_VARIABLE code)
add_custom_target(left ALL COMMAND sh -c "mktemp -t ccXXXXXX.s" VERBATIM)
"""


def test_what_a_compiler_leaves_goes_with_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with cmake.build_project({"CMakeLists.txt": PROJECT}, "nothing") as build:
        (scratch,) = tmp_path.iterdir()
        assert build.startswith(os.path.realpath(scratch))
        assert len(os.listdir(os.path.join(build, "tmp"))) == 2
    assert list(tmp_path.iterdir()) == []


PRODUCT = b"""
cmake_minimum_required(VERSION 3.16)
project(product NONE)
add_custom_target(made ALL COMMAND cmake -E touch "${CMAKE_BINARY_DIR}/product" VERBATIM)
file(WRITE "${CMAKE_BINARY_DIR}/facts" "${CMAKE_GENERATOR} ${CMAKE_CONFIGURATION_TYPES}")
"""
HOSTILE = {
    "MAKEFLAGS": "-n --jobserver-auth=8,9 -j",
    "GNUMAKEFLAGS": "--question",
    "MAKEFILES": "/nowhere/none.mk",
    "CMAKE_BUILD_PARALLEL_LEVEL": "none",
    "CMAKE_CONFIGURATION_TYPES": "One;Two",
    "CMAKE_CONFIG_TYPE": "Two",
    "CMAKE_GENERATOR_PLATFORM": "x64",
    "CMAKE_GENERATOR_TOOLSET": "v143",
    "CMAKE_GENERATOR_INSTANCE": "none",
    "CMAKE_INSTALL_PREFIX": "/nowhere",
    "DESTDIR": "/nowhere",
}
"""Values with which CMake or make alone would build nothing, or something else."""


def build(path: str, **variables: str) -> str:
    """Return the generator and the configurations of a project that was built."""
    project = {"CMakeLists.txt": PRODUCT}
    with cmake.build_project(project, "a product", {"PATH": path, **variables}) as made:
        assert os.path.exists(os.path.join(made, "product"))
        return Path(made, "facts").read_text()


def programs(directory: Path, *names: str) -> str:
    directory.mkdir()
    for name in ("cmake", "sh", *names):
        (directory / name).symlink_to(shutil.which(name) or name)
    return str(directory)


def test_the_generator_is_one_with_a_single_configuration(tmp_path: Path) -> None:
    assert {*HOSTILE} <= DROPPED
    path = os.environ["PATH"]
    for given, made in (("", "Unix Makefiles"), ("Ninja", "Ninja")):
        assert build(path, CMAKE_GENERATOR=given, **HOSTILE) == f"{made} "
    assert build(programs(tmp_path / "ninja", "ninja")) == "Ninja "
    with pytest.raises(ToolError, match="no make on PATH, and perhaps no C\\+\\+ compiler"):
        build(programs(tmp_path / "neither"))


@pytest.mark.parametrize(("generator", "program"), [("Ninja", "ninja"), ("Unix Makefiles", "make")])
def test_the_program_of_a_named_generator_is_missing(
    tmp_path: Path, generator: str, program: str
) -> None:
    (other,) = {"make", "ninja"} - {program}
    with pytest.raises(ToolError, match=f"^CMAKE_GENERATOR={generator}: no {program} on PATH"):
        build(programs(tmp_path / "bin", other), CMAKE_GENERATOR=generator)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CMAKE_GENERATOR", "Ninja Multi-Config"),
        ("CMAKE_GENERATOR", "Eclipse CDT4 - Ninja"),
        ("CMAKE_TOOLCHAIN_FILE", "/opt/cross.cmake"),
    ],
)
def test_variables_that_would_build_something_else(name: str, value: str) -> None:
    with pytest.raises(OptionsError, match=f"^{name}={value}: .* unset"):
        build(os.environ["PATH"], **{name: value})
