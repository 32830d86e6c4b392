"""Rows of tensors, and the memory of their parts, in C++ without torch."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.delegate import compile_alone, render
from support.simulator import SANITIZERS


@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_rows(sanitizer: str, tmp_path: Path) -> None:
    render(tmp_path)
    program = compile_alone("rows", tmp_path, sanitizer)
    done = subprocess.run([program], capture_output=True, text=True, check=False, timeout=300)
    assert (done.stdout, done.stderr) == ("ok\n", "")
