"""What the graft command refuses, and that it leaves nothing half done."""

from __future__ import annotations

import sys
from pathlib import Path

from support.torch import switchml_patch


def test_interpreter_without_torch(patched: Path, home: Path, tmp_path: Path) -> None:
    lib = tmp_path / "lib.so"
    lib.write_text("as before")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    done = switchml_patch(
        "graft", "build", "--torch", python, "--source", patched, "-o", lib, "--switchml-home", home
    )
    assert done.returncode == 4
    assert "cannot import torch" in done.stderr
    assert "Traceback" not in done.stderr
    assert lib.read_text() == "as before"


def test_source_that_is_no_tree(torch_python: Path, home: Path, tmp_path: Path) -> None:
    arguments = ["--torch", str(torch_python), "--source", str(tmp_path), "-o", "lib.so"]
    done = switchml_patch("graft", "build", *arguments, "--switchml-home", home)
    assert done.returncode == 3
    assert "not a PyTorch tree" in done.stderr


def test_missing_client_library(torch_python: Path, patched: Path, tmp_path: Path) -> None:
    lib = tmp_path / "lib.so"
    arguments = ["--torch", str(torch_python), "--source", str(patched), "-o", str(lib)]
    done = switchml_patch("graft", "build", *arguments, "--switchml-home", tmp_path / "nowhere")
    assert done.returncode == 4
    assert f"{tmp_path}/nowhere/include/switchml/context.h" in " ".join(done.stderr.split())
    assert not lib.exists()
