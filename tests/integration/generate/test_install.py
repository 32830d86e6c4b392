"""The tool is installed from its own checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[3]


def test_what_setuptools_writes_is_not_where_wheels_go(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    listed = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT).decode()
    for name in filter(None, listed.split("\0")):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation",
               "--wheel-dir", str(tmp_path / "made"), str(copy)]  # fmt: skip
    environ = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    subprocess.run(command, cwd=tmp_path, env=environ, check=True, capture_output=True)
    assert len(list((tmp_path / "made").glob("switchml_patch-*.whl"))) == 1
    assert not (copy / "build").exists()
