"""The delegate's C++ without torch: several processes and threads, plain and under sanitizers."""

from __future__ import annotations

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from support.delegate import CPP, GROUP_MS, STRICT, compiled, render, run
from support.simulator import SANITIZED, SANITIZERS, sanitized_home

if TYPE_CHECKING:
    from pathlib import Path

    from support.simulator import Home

pytestmark = pytest.mark.integration

# Optimized by g++ it is in the tests with a library that passes for the real one.
BUILDS = {
    "clang": ("clang++",),
    "thread": ("g++", SANITIZERS["thread"], *SANITIZED),
    "address": (
        "g++", SANITIZERS["address"], "-fno-sanitize-recover=all", *SANITIZED, "-DOTHER_ABI",
    ),
}  # fmt: skip
LIMIT_MS = 2_000


@pytest.fixture(scope="session", params=list(BUILDS))
def program(
    request: pytest.FixtureRequest, simulator_home: Home, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    directory = tmp_path_factory.mktemp(f"delegate-{request.param}")
    made = simulator_home
    if request.param in SANITIZERS:
        made = sanitized_home(tmp_path_factory, request.param)
    shutil.copy(made.prefix / "switchml.cfg", directory)
    render(directory)
    # The linker takes functions of both from the first, as in a torch.
    sources = [CPP / "delegate.cpp", directory / "SwitchMLAllreduce.cpp"]
    return compiled("delegate", sources, made.prefix, directory, *BUILDS[request.param])


def delegated(program: Path, scenario: str, size: int, limit_ms: int, scratch: Path) -> list[str]:
    env = {-1: {"SWITCHML_TIMEOUT_MS": str(limit_ms), "SWITCHML_CHUNK_NUMEL": "1000"}}
    return run(program, scenario, size, scratch, env=env)


@pytest.mark.parametrize(
    ("scenario", "size"),
    [("concurrent", 3), ("again", 2), ("race", 2), ("readers", 2), ("abandoned", 2)],
)
def test_delegate(program: Path, scenario: str, size: int, tmp_path: Path) -> None:
    said = delegated(program, scenario, size, GROUP_MS, tmp_path)
    assert "goes to SwitchML" in said[0] or scenario == "race"
    assert "backend=" not in said[0], "the simulator has none"


def test_limits(program: Path, tmp_path: Path) -> None:
    """Side by side, as their ranks mostly wait."""
    scratch = {name: tmp_path / name for name in ("interrupted", "untaken", "late", "tardy")}
    with ThreadPoolExecutor(len(scratch)) as pool:
        jobs = []
        for scenario, directory in scratch.items():
            directory.mkdir()
            jobs.append(pool.submit(delegated, program, scenario, 2, LIMIT_MS, directory))
        assert all("goes to SwitchML" in job.result()[0] for job in jobs)


@pytest.mark.parametrize("program", ["clang", "address"], indirect=True)
def test_forked_child(program: Path, tmp_path: Path) -> None:
    """Not under ThreadSanitizer, which gives up after a fork of several threads."""
    run(program, "forked", 2, tmp_path)


def test_header_is_cxx14(tmp_path: Path) -> None:
    """ProcessGroupGloo.cpp is C++14 in PyTorch 1.7.1."""
    render(tmp_path)
    (tmp_path / "user.cpp").write_text('#include "SwitchMLAllreduce.hpp"\n')
    for compiler in ("g++", "clang++"):
        command = [compiler, "-std=c++14", "-pedantic", "-Wall", "-Wextra", "-Werror"]
        subprocess.run([*command, "-fsyntax-only", "user.cpp"], cwd=tmp_path, check=True)


def test_the_sums_of_the_probe(tmp_path: Path) -> None:
    """Right sums are accepted with any number of ranks, and wrong ones of many kinds are not."""
    render(tmp_path)
    out = str(tmp_path / "probe")
    command = ["g++", *STRICT, "-fsanitize=undefined", "-fno-sanitize-recover=all"]
    source = str(CPP / "probe.cpp")
    subprocess.run([*command, f"-I{tmp_path}", source, "-o", out], check=True)
    done = subprocess.run([out], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("ok\n", "")
