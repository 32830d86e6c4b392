"""The project of the delegate library by itself, built and tested without a torch."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.cmake import run
from support.delegate import configure, configured
from support.shared import once
from support.simulator import SANITIZERS

from patchgen.core.patch import render


def test_the_project_is_built_alone(home: Path, tmp_path: Path) -> None:
    """With its lines for debugging, too."""
    build = tmp_path / "build"
    configure(build, home, "-DSWITCHML_DELEGATE_DEBUG")
    subprocess.run(["cmake", "--build", build], check=True)
    defined = run("nm", "-D", "--defined-only", build / render.LIBRARY)
    assert [line.split()[-1] for line in defined.splitlines()] == ["switchml_delegate_interface"]
    assert b"debug: " in (build / render.LIBRARY).read_bytes()


@pytest.mark.parametrize("labels", ["-LE", pytest.param("-L", marks=pytest.mark.rebuild)])
@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_parts(sanitizer: str, labels: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The ranks agree in any order of their accesses, and in each state of the failover."""
    build = configured(tmp_path_factory, sanitizer)

    def make(_: Path) -> None:
        subprocess.run(["cmake", "--build", build, "--target", "checks"], check=True)

    once(tmp_path_factory, f"delegate-checks-{sanitizer}", make)
    command = ["ctest", "--test-dir", str(build), labels, "long"]
    subprocess.run([*command, "--output-on-failure", "--no-tests=error"], check=True)
