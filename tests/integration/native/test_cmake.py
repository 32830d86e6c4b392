"""What programs leave behind that compile for us."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from patchgen.system.native import cmake

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
