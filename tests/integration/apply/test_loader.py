"""The loader, which torch compiles: it shares records with the delegate, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.cmake import need, run

from patchgen.core.patch import render

LOADER = "SwitchMLLoader.cpp"
CLASSES = ("Negotiation", "Outcome", "Settings", "Choice", "Probe", "HeldName", "quantize")
"""Classes and namespaces of the delegate library."""


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    for name, content in render.compiled_files("").items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    return tmp_path


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_torch_compiles_no_code_of_the_delegate(sources: Path, compiler: str) -> None:
    need(compiler)
    built = sources / "loader.o"
    include = (f"-I{sources / render.PROJECT / 'include'}", "-iquote", str(sources))
    digest = '-DSWITCHML_DELEGATE_DIGEST="digest"'
    strict = ["-std=c++14", "-O1", "-Wall", "-Wextra", "-Werror", *include, digest]
    run(compiler, *strict, "-c", sources / LOADER, "-o", built)
    found = {*re.findall(r"switchml_delegate::[\w:]+", run("nm", "-C", built))}
    assert "switchml_delegate::agree" in found
    assert not [name for name in found if any(one in name for one in CLASSES)]
    rule = run(compiler, *strict, "-MM", sources / LOADER)
    assert f"{render.PROJECT}/include/record.hpp" in rule
    assert f"{render.PROJECT}/src" not in rule
