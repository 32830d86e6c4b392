"""The delegate's C++ without torch: several processes and threads, plain and under sanitizers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.simulator import SANITIZERS, sanitized_home

from patchgen.accuracy.fixed_point import may_overflow
from patchgen.system.ports import free_port

if TYPE_CHECKING:
    from support.simulator import Home

pytestmark = pytest.mark.integration

CPP = Path(__file__).parents[2] / "cpp"
BUILDS = {
    "gcc": ("g++", []),
    "clang": ("clang++", []),
    "thread": ("g++", [SANITIZERS["thread"], "-g"]),
    "address": ("g++", [SANITIZERS["address"], "-fno-sanitize-recover=all", "-g"]),
}
TERMS = {"timeout": 1, "timeout_threshold": 100, "timeout_threshold_increment": 600}


def render(directory: Path) -> None:
    """The C++ as the patch has it for the default pin."""
    code = (
        "import sys; from pathlib import Path; from patchgen.patch import pins, render\n"
        "pin = pins.find(pins.DEFAULT, pins.shipped())\n"
        "for path, content in render.fixed_files(pin).items():\n"
        "    (Path(sys.argv[1]) / Path(path).name).write_bytes(content)\n"
    )
    subprocess.run([sys.executable, "-c", code, directory], check=True)


@pytest.fixture(scope="session", params=list(BUILDS))
def program(
    request: pytest.FixtureRequest, simulator_home: Home, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    compiler, flags = BUILDS[request.param]
    directory = tmp_path_factory.mktemp(f"delegate-{request.param}")
    made = simulator_home
    if request.param in SANITIZERS:
        made = sanitized_home(tmp_path_factory, request.param)
    home = made.prefix
    shutil.copy(home / "switchml.cfg", directory)
    render(directory)
    command = [compiler, "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", *flags]
    sources = [directory / "SwitchMLAllreduce.cpp", CPP / "delegate.cpp"]
    libraries = [
        f"-L{home}/lib",
        "-lswitchml-client",
        "-lglog",
        "-lboost_program_options",
        "-pthread",
    ]
    out = directory / "delegate"
    done = subprocess.run(
        [*command, f"-I{directory}", f"-I{home}/include", *sources, "-o", out, *libraries],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return out


def run(program: Path, scenario: str, size: int, scratch: Path, timeout_ms: int) -> list[str]:
    """What every rank wrote to stderr; all must end well."""
    template = (program.parent / "switchml.cfg").read_text()
    port = free_port()
    processes = []
    for rank in range(size):
        directory = scratch / str(rank)
        directory.mkdir()
        text = template
        values = {"rank": rank, "num_workers": size, "controller_port": port, **TERMS}
        for key, value in values.items():
            text = re.sub(rf"(?m)^{key} *=.*$", f"{key} = {value}", text)
        (directory / "switchml.cfg").write_text(text)
        arguments = [scenario, str(rank), str(size), str(scratch / "store"), str(timeout_ms)]
        env = {k: v for k, v in os.environ.items() if not k.startswith("SWITCHML_")}
        env |= {"TSAN_OPTIONS": "halt_on_error=1", "UBSAN_OPTIONS": "print_stacktrace=1"}
        processes.append(
            subprocess.Popen(
                [program, *arguments],
                cwd=directory,
                env=env,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    said = []
    try:
        for process in processes:
            out, err = process.communicate(timeout=120)
            assert process.returncode == 0, err
            assert out == "ok\n"
            assert "Sanitizer" not in err, err
            said.append(err)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return said


@pytest.mark.parametrize(
    ("scenario", "size", "timeout_ms"),
    [
        ("concurrent", 3, 60_000),
        ("again", 2, 60_000),
        ("race", 2, 60_000),
        ("abandoned", 2, 60_000),
        ("late", 2, 2_000),
        ("tardy", 2, 2_000),
    ],
)
def test_delegate(program: Path, scenario: str, size: int, timeout_ms: int, tmp_path: Path) -> None:
    said = run(program, scenario, size, tmp_path, timeout_ms)
    assert "goes to SwitchML" in said[0] or scenario == "race"


@pytest.mark.parametrize("program", ["gcc", "clang", "address"], indirect=True)
def test_forked_child(program: Path, tmp_path: Path) -> None:
    """Not under ThreadSanitizer, which gives up after a fork of several threads."""
    run(program, "forked", 2, tmp_path, 60_000)


def objections(home: Home, scratch: Path, *, simulator: bool) -> Path:
    """A program that tells what the delegate has against each num_workers."""
    scratch.mkdir()
    render(scratch)
    shutil.copytree(home.prefix / "include" / "switchml", scratch / "switchml")
    if not simulator:
        common = scratch / "switchml" / "common.h"
        common.write_text(common.read_text().replace("#define SWITCHML_SIMULATOR 1\n", ""))
    program = scratch / "objection"
    command = ["g++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-DDPDK", "-DDUMMY"]
    libraries = [f"-L{home.prefix}/lib", "-lswitchml-client", "-lglog", "-lboost_program_options"]
    source = str(CPP / "objection.cpp")
    subprocess.run([*command, f"-I{scratch}", source, "-o", str(program), *libraries], check=True)
    return program


def test_a_group_whose_sums_may_overflow_stays_with_gloo(
    simulator_home: Home, tmp_path: Path
) -> None:
    """The delegate has the rule of `switchml-patch accuracy`."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("SWITCHML_")}

    def told(program: Path, backend: str, **more: str) -> list[str]:
        command = [str(program), backend, "cpu_exponent_quantizer"]
        done = subprocess.run(command, env=env | more, check=True, capture_output=True, text=True)
        return done.stdout.splitlines()

    real = objections(simulator_home, tmp_path / "real", simulator=False)
    found = told(real, "dpdk")
    wrong = [workers for workers in range(1, 65536) if may_overflow(workers)]
    assert [int(line.split(":")[0]) for line in found] == wrong
    assert found[0] == (
        "256: num_workers = 256: with so many workers the library's fixed point may overflow "
        "int32, with fewer than 256 it never does"
    )
    # What does not sum anyway cannot be spoilt, and the simulator has a limit.
    assert not told(real, "dummy", SWITCHML_ALLOW_FAKE_SUMS="1")
    simulated = objections(simulator_home, tmp_path / "simulator", simulator=True)
    assert not told(simulated, "dummy")


def test_header_is_cxx14(tmp_path: Path) -> None:
    """ProcessGroupGloo.cpp is C++14 in PyTorch 1.7.1."""
    render(tmp_path)
    (tmp_path / "user.cpp").write_text('#include "SwitchMLAllreduce.hpp"\n')
    for compiler in ("g++", "clang++"):
        command = [compiler, "-std=c++14", "-pedantic", "-Wall", "-Wextra", "-Werror"]
        subprocess.run([*command, "-fsyntax-only", "user.cpp"], cwd=tmp_path, check=True)
