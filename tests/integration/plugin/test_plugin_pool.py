"""The plugin's threads without torch, plain and under sanitizers."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from support.simulator import SANITIZED, SANITIZERS
from support.waiting import captured

from patchgen.core.patch import render

CPP = Path(__file__).parents[2] / "cpp"
BUILDS = {
    "clang": ("clang++", []),
    "thread": ("g++", [SANITIZERS["thread"], *SANITIZED]),
    "address": ("g++", [SANITIZERS["address"], "-fno-sanitize-recover=all", *SANITIZED]),
}


@pytest.mark.parametrize("build", BUILDS)
def test_pool(build: str, tmp_path: Path) -> None:
    """In a forked child not under ThreadSanitizer, which gives up after a fork of threads."""
    compiler, flags = BUILDS[build]
    (tmp_path / "WorkPool.hpp").write_text(render.text("plugin/WorkPool.hpp"))
    command = [compiler, "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", *flags]
    out = tmp_path / "pool"
    subprocess.run([*command, f"-I{tmp_path}", CPP / "work_pool.cpp", "-o", out], check=True)
    environ = {**os.environ, "TSAN_OPTIONS": "halt_on_error=1", "ASAN_OPTIONS": "detect_leaks=1"}
    done = captured([out, *(["forked"] if build != "thread" else [])], env=environ, timeout=600)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")
