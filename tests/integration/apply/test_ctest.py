"""The project of the delegate library by itself, built and tested without a torch."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.cmake import need, run
from support.simulator import SANITIZERS, SANITIZING

from patchgen.core.patch import render
from patchgen.templates import DIRECTORY


def configured(build: Path, home: Path, *options: str) -> Path:
    need("cmake", "ninja")
    source = str(Path(DIRECTORY).resolve() / "delegate")
    command = ["cmake", "-S", source, "-B", str(build), "-G", "Ninja", f"-DSWITCHML_HOME={home}"]
    subprocess.run([*command, *options], check=True)
    return build


def test_the_project_is_built_alone(home: Path, tmp_path: Path) -> None:
    """With its lines for debugging, too."""
    options = (f"-DCMAKE_CXX_COMPILER={SANITIZING}", "-DCMAKE_CXX_FLAGS=-DSWITCHML_DELEGATE_DEBUG")
    build = configured(tmp_path / "build", home, *options)
    subprocess.run(["cmake", "--build", build], check=True)
    defined = run("nm", "-D", "--defined-only", build / render.LIBRARY)
    assert [line.split()[-1] for line in defined.splitlines()] == ["switchml_delegate_interface"]
    assert b"debug: " in (build / render.LIBRARY).read_bytes()


@pytest.mark.parametrize("labels", ["-LE", pytest.param("-L", marks=pytest.mark.rebuild)])
@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_parts(home: Path, tmp_path: Path, sanitizer: str, labels: str) -> None:
    """The ranks agree in any order of their accesses, and in each state of the failover."""
    flags = f"-O0 -g1 {SANITIZERS[sanitizer]} -fno-sanitize-recover=all"
    compiler = f"-DCMAKE_CXX_COMPILER={SANITIZING}"
    build = configured(tmp_path / "build", home, compiler, f"-DCMAKE_CXX_FLAGS={flags}")
    subprocess.run(["cmake", "--build", build, "--target", "checks"], check=True)
    command = ["ctest", "--test-dir", str(build), labels, "long"]
    subprocess.run([*command, "--output-on-failure", "--no-tests=error"], check=True)
