"""The plugin's threads without torch, plain and under sanitizers."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from support.simulator import SANITIZED, SANITIZERS

from patchgen.core.patch import render

pytestmark = pytest.mark.integration

CPP = Path(__file__).parents[2] / "cpp"
BUILDS = {
    "clang": ("clang++", []),
    "thread": ("g++", [SANITIZERS["thread"], *SANITIZED]),
    "address": ("g++", [SANITIZERS["address"], "-fno-sanitize-recover=all", *SANITIZED]),
}


@pytest.fixture(scope="module", params=list(BUILDS))
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler, flags = BUILDS[request.param]
    directory = tmp_path_factory.mktemp(f"pool-{request.param}")
    (directory / "WorkPool.hpp").write_text(render.text("plugin/WorkPool.hpp"))
    command = [compiler, "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", *flags]
    out = directory / "pool"
    done = subprocess.run(
        [*command, f"-I{directory}", CPP / "work_pool.cpp", "-o", out],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return out


def run(program: Path, scenario: str) -> None:
    environ = {**os.environ, "TSAN_OPTIONS": "halt_on_error=1", "ASAN_OPTIONS": "detect_leaks=1"}
    done = subprocess.run(
        [program, scenario], capture_output=True, text=True, check=False, timeout=240, env=environ
    )
    assert done.returncode == 0, done.stderr
    assert (done.stdout, done.stderr) == ("ok\n", "")


@pytest.mark.parametrize("scenario", ["order", "waiting", "crowd", "last", "starved"])
def test_pool(program: Path, scenario: str) -> None:
    run(program, scenario)


@pytest.mark.parametrize("program", ["clang", "address"], indirect=True)
def test_pool_in_a_forked_child(program: Path) -> None:
    """Not under ThreadSanitizer, which gives up after a fork of several threads."""
    run(program, "forked")
