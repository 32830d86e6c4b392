"""What the graft command refuses, and that it leaves nothing half done."""

from __future__ import annotations

from pathlib import Path

from support.torch import switchml_patch


def test_missing_client_library(torch_python: Path, patched: Path, tmp_path: Path) -> None:
    lib = tmp_path / "lib.so"
    arguments = ["--torch", str(torch_python), "--source", str(patched), "-o", str(lib)]
    done = switchml_patch("graft", "build", *arguments, "--switchml-home", tmp_path / "nowhere")
    assert done.returncode == 2
    assert f"{tmp_path}/nowhere/include/switchml/context.h" in " ".join(done.stderr.split())
    assert not lib.exists()
