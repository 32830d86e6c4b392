"""Toolchain of a build, as its provenance has it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from patchgen.core.wheel import toolchain
from patchgen.errors import ToolError
from patchgen.system.native import cache, tools


def program(path: Path, says: str) -> str:
    path.write_text(f"#!/bin/sh\necho '{says}' $*\n")
    path.chmod(0o755)
    return str(path)


def test_both_compilers_are_named_with_their_versions(tmp_path: Path) -> None:
    plus, plain = program(tmp_path / "c++", "plus 3"), program(tmp_path / "my cc", "plain 4")
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "CC": f"'{plain}' -m64"}
    found = toolchain.find(sys.executable, environ)
    assert (found.compiler, found.c_compiler) == (plus, plain)
    assert found.programs["c++"] == "plus 3 --version"
    assert found.programs["cc"] == "plain 4 -m64 --version"
    program(tmp_path / "my cc", "plain 5")
    assert toolchain.find(sys.executable, environ).identity != found.identity


def test_an_image_names_the_archives_of_its_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archives = tmp_path / "archives"
    monkeypatch.setattr(tools, "ARCHIVES", str(archives))
    environ = {"PATH": os.environ["PATH"]}
    assert tools.describe_tools(environ)["archives"] == []
    archives.write_text("http://one/debian http://one/debian-security\n")
    named = ["http://one/debian", "http://one/debian-security"]
    assert tools.describe_tools(environ)["archives"] == named
    assert toolchain.find(sys.executable, environ).archives == named


@pytest.mark.parametrize("variable", ["CC", "CXX"])
@pytest.mark.parametrize("value", ["/none/cc", "'", " "])
def test_a_compiler_that_is_none_is_named(variable: str, value: str) -> None:
    with pytest.raises(ToolError, match=rf"no such compiler; .*set {variable}"):
        toolchain.find(sys.executable, {**os.environ, variable: value})


def test_gcc_is_taken_where_there_is_no_cc(tmp_path: Path) -> None:
    paths = [program(tmp_path / name, name) for name in ("gcc", "g++")]
    environ = {"PATH": str(tmp_path)}
    assert [tools.find_compiler(variable, environ)[0] for variable in ("CC", "CXX")] == paths
    assert set(paths) <= set(map(str, cache.describe_compiler(environ)))
