"""ci/lint finds a fault of each kind, in a repository of its own with the same configuration."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONFIGURATION = (
    ".clang-format",
    ".pre-commit-config.yaml",
    "ci/lint",
    "pyproject.toml",
)
WORKFLOW = """\
on: push
permissions: {contents: read}
jobs:
  job:
    runs-on: ubuntu-24.04
    steps:
      - run: echo %s
"""
FAULTS = {
    "ruff check": ("patchgen/imports.py", '"""Numbers."""\n\nimport os\n'),
    "ruff format; to format, run: ruff format FILES": (
        "patchgen/spaces.py",
        '"""Numbers."""\n\nONE =  1\n',
    ),
    "mypy": ("patchgen/types.py", '"""Numbers."""\n\nONE: int = "1"\n'),
    "clang-format; to format, run: clang-format -i FILES": (
        "templates/spaces.cpp.j2",
        "int  one;\n",
    ),
    "syntax of workflows": (".github/workflows/syntax.yml", "needless: true\n" + WORKFLOW % 1),
    "security of workflows": (
        ".github/workflows/security.yml",
        WORKFLOW % "${{ github.event.issue.title }}",
    ),
}
RIGHT = {
    ".github/workflows/right.yml": WORKFLOW % 1,
    "docs/right.py": '"""Page."""\n',
    "patchgen/__init__.py": '"""Numbers."""\n',
    "templates/right.cpp.j2": "int one;\n",
    "tests/right.py": "",
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for name in CONFIGURATION:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for name, text in RIGHT.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "add", "patchgen"], cwd=tmp_path, check=True)
    return tmp_path


def lint(repository: Path) -> tuple[int, set[str], str]:
    """The exit code, the checks that failed, and all that was said."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [repository / "ci" / "lint"], env={**os.environ, "PATH": path}, text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.endswith("Failed")]
    return done.returncode, {line.partition("..")[0] for line in lines}, done.stdout


def test_a_fault_of_each_kind(repository: Path) -> None:
    for name, text in FAULTS.values():
        (repository / name).write_text(text)
    code, failed, output = lint(repository)
    assert code
    assert failed == {*FAULTS}, output
    assert all(name in output for name, _ in FAULTS.values()), output
