"""Rows of tensors, and the memory of their parts, in C++ without torch."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.delegate import compile_alone, compile_mutants, render
from support.simulator import SANITIZERS

HEADER = "SwitchMLCodec.hpp"
MUTANTS = {
    "as it is": ("kMost = 3;", "kMost = 3;"),
    "never a whole row": ("sources.mayMeet(targets)", "false"),
    "a tensor that meets itself": ("dimension.first >= reach.first", "true"),
    "places of the row that are not compared": ("return begin == other.begin &&", "return"),
    "strides that are not compared": (
        "tensor.sizes() == other.tensor.sizes() && tensor.strides() == other.tensor.strides()",
        "true",
    ),
    "targets that are no writes": (
        "targets.parts_[i].extent(/*read=*/false, /*written=*/true)",
        "targets.parts_[i].extent(/*read=*/false, /*written=*/false)",
    ),
    "only what is written first": ("(extent.written && extent.begin < read) ||", ""),
    "only what is read first": ("|| (extent.read && extent.begin < written)", ""),
    "the newest part first": (
        "std::move(placed_.front());\n    placed_.pop_front();",
        "std::move(placed_.back());\n    placed_.pop_back();",
    ),
    "a whole row that is filled part by part": (
        "if (whole_ && first > 0) {\n      return;\n    }", "",
    ),
    "a row of a tensor that is taken whole": (
        "place < from ? 0 : (to - place) / size", "tensor.size(0) - row",
    ),
    "a piece that is still used": ("    free_.pop_back();\n", ""),
    "a piece that is free too early": (
        "return {new Tensor(row), [this, piece]",
        "free_.push_back(piece);\n    return {new Tensor(row), [this, piece]",
    ),
    "pieces that go": ("free_.size() < kMost", "false"),
    "pieces that all stay": ("free_.size() < kMost", "true"),
    "a tensor that stays": (
        "row.set_(piece.storage(), 0, {numel}, {1});", "row = piece.narrow(0, 0, numel);",
    ),
    "a piece that is too small": ("if (numel > kNumel) {", "if (numel > 2 * kNumel) {"),
}  # fmt: skip


@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_rows(sanitizer: str, tmp_path: Path) -> None:
    render(tmp_path)
    program = compile_alone("rows", tmp_path, sanitizer)
    done = subprocess.run([program], capture_output=True, text=True, check=False, timeout=300)
    assert (done.stdout, done.stderr) == ("ok\n", "")


@pytest.mark.rebuild
def test_mutants(tmp_path: Path) -> None:
    """Each but the first fails."""
    program = compile_mutants("rows", [HEADER], MUTANTS, tmp_path)
    right = [
        name
        for name in MUTANTS
        if subprocess.run(
            [program, name], capture_output=True, check=False, timeout=300
        ).returncode == 0
    ]  # fmt: skip
    assert right == ["as it is"]
