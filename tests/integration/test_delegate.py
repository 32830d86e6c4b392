"""The delegate's C++ without torch: several processes and threads, plain and under sanitizers."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

HERE = Path(__file__).parent
BUILDS = {
    "gcc": ("g++", []),
    "clang": ("clang++", []),
    "thread": ("g++", ["-fsanitize=thread", "-g"]),
    "address": ("g++", ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g"]),
}
TERMS = {"timeout": 1, "timeout_threshold": 100, "timeout_threshold_increment": 600}


def render(directory: Path) -> None:
    """The C++ as the patch has it for the default pin."""
    code = (
        "import sys; from pathlib import Path; from patchgen import pins, render\n"
        "pin = pins.find(pins.DEFAULT, pins.shipped())\n"
        "for path, content in render.fixed_files(pin).items():\n"
        "    (Path(sys.argv[1]) / Path(path).name).write_bytes(content)\n"
    )
    subprocess.run([sys.executable, "-c", code, directory], check=True)


@pytest.fixture(scope="session", params=list(BUILDS))
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler, flags = BUILDS[request.param]
    directory = tmp_path_factory.mktemp(f"delegate-{request.param}")
    home = directory / "home"
    install = [sys.executable, "-m", "patchgen", "simulator", "install", str(home)]
    subprocess.run([*install, f"--cxxflags={' '.join(flags)}"], check=True, capture_output=True)
    render(directory)
    command = [compiler, "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", *flags]
    sources = [directory / "SwitchMLAllreduce.cpp", HERE / "cpp" / "delegate.cpp"]
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
    template = (program.parent / "home" / "switchml.cfg").read_text()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
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


def test_header_is_cxx14(tmp_path: Path) -> None:
    """ProcessGroupGloo.cpp is C++14 in PyTorch 1.7.1."""
    render(tmp_path)
    (tmp_path / "user.cpp").write_text('#include "SwitchMLAllreduce.hpp"\n')
    for compiler in ("g++", "clang++"):
        command = [compiler, "-std=c++14", "-pedantic", "-Wall", "-Wextra", "-Werror"]
        subprocess.run([*command, "-fsyntax-only", "user.cpp"], cwd=tmp_path, check=True)
