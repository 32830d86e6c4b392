"""What messages tell a user to run is something that the system does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pip
import pytest
from support.waiting import captured
from support.wheelhouse import Fake

from patchgen.system import interpreter
from patchgen.system.payload import probe

SYSTEM = "/usr/bin/python3"


def ask(python: str) -> interpreter.Interpreter:
    return interpreter.ask(python, {"PATH": "/usr/bin:/bin"})


def run(advice: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run the commands of advice, with names of their own in a directory."""
    command = re.search(r"run: (.*?)(?:; then|$)", advice)
    assert command
    return captured(["sh", "-c", command[1].replace("DIR", str(directory / "made"))], cwd=directory)


@pytest.mark.skipif(
    not Path(SYSTEM).exists() or ask(SYSTEM).pip != probe.MANAGED,
    reason="the system does not manage the packages of its Python",
)
def test_where_the_system_manages_the_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "pip").symlink_to(Path(pip.__file__).parent)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"))  # Debian's Python may have no pip
    wheel = Fake("advised", "1.0").write(tmp_path)
    found = ask(SYSTEM)
    plain = interpreter.advise_pip(SYSTEM, [str(wheel)], probe.WORKS, "")
    assert "externally-managed-environment" in run(plain, tmp_path).stderr
    advice = found.advise_pip([str(wheel)], "use it")
    done = run(advice, tmp_path)
    assert done.returncode == 0, done.stderr
    made = ask(str(tmp_path / "made" / "bin" / "python"))
    assert made.pip == probe.WORKS
    assert advice.endswith("; then use it")


def test_where_there_is_no_pip(tmp_path: Path) -> None:
    wheel, venv = Fake("advised", "1.0").write(tmp_path), tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    python = str(venv / "bin" / "python")
    assert ask(python).pip == probe.MISSING
    done = run(ask(python).advise_pip([str(wheel)], ""), tmp_path)
    assert done.returncode == 0, done.stderr
    assert ask(python).pip == probe.WORKS
