"""The recorder of PyTorch's own tests, on a module of tests like them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import programs

COMPAT = Path(__file__).resolve().parents[2] / "compat"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tree") / "pytorch-1.0"
    (root / "test" / "distributed").mkdir(parents=True)
    (root / "test" / "distributed" / "test_c10d_gloo.py").write_text(programs.read("compat_module"))
    return root


def run(python: Path, tree: Path, output: Path, *arguments: str, **env: str) -> dict[str, Any]:
    command: list[str | Path] = [
        sys.executable,
        COMPAT / "run.py",
        "--python",
        python,
        "--source",
        tree,
    ]
    environ = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")} | env
    done = subprocess.run(
        [*command, "-o", output, *arguments],
        capture_output=True,
        text=True,
        env=environ,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results: dict[str, Any] = json.loads(output.read_text())
    return results


def compare(*results: Path) -> list[str]:
    command: list[str | Path] = [sys.executable, COMPAT / "compare.py", *results]
    return subprocess.check_output(command, text=True).splitlines()


def test_outcomes_and_what_was_delegated(
    torch_python: Path, graft: Path, home: Path, tree: Path, tmp_path: Path
) -> None:
    stock = run(torch_python, tree, tmp_path / "stock.json", "--way", "stock", "--only", "Gloo*")
    options = ["--graft", str(graft), "--switchml-home", str(home), "--only", "Gloo*"]
    ours = run(torch_python, tree, tmp_path / "graft.json", "--way", "graft", *options)
    for results, calls in ((stock, 0), (ours, 3)):
        module = results["modules"]["test_c10d_gloo"]
        assert module["code"] == 0
        tests = {name.partition(".")[2]: answer for name, answer in module["tests"].items()}
        assert {name: answer["outcome"] for name, answer in tests.items()} == {
            "test_sums": "passed",
            "test_fails": "failed",
            "test_skips": "skipped",
            "test_dies": "failed",
            "test_leaves_at_once": "failed",
        }
        assert tests["test_fails"]["why"] == "AssertionError: 1 != 2"
        assert tests["test_skips"]["why"] == "for a reason"
        assert tests["test_dies"]["why"] == "the process of the test died"
        assert tests["test_sums"]["summed"] == calls
    lines = compare(tmp_path / "stock.json", tmp_path / "graft.json")
    assert lines[:2] == [
        "stock: 3 failed, 1 skipped, 1 passed, 0 allreduces of 0 tests by SwitchML",
        "graft: 3 failed, 1 skipped, 1 passed, 3 allreduces of 1 tests by SwitchML",
    ]
    why = "failed (AssertionError: 1 != 2)"
    assert f"GlooTest.test_fails: stock {why}; graft {why}" in lines
    assert len(lines) == 2 + 3


def answers(way: str, *outcomes: str, why: str = "", runs: int = 1) -> dict[str, Any]:
    tests = {
        f"Class.test_{number}": {
            "outcome": outcome, "why": why if outcome == "failed" else "", "summed": 0,
            "runs": runs, "failed": int(outcome == "failed"),
        }
        for number, outcome in enumerate(outcomes)
    }  # fmt: skip
    return {"way": way, "modules": {"test_c10d_gloo": {"code": 0, "tests": tests}}}


def test_every_difference_is_told(tmp_path: Path) -> None:
    paths = []
    for number, result in enumerate([
        answers("stock", "passed", "passed", "skipped"),
        answers("graft", "passed", "failed", "skipped", why="E: /usr/lib/cuda.cpp:7"),
        answers("graft", "passed", "passed", "skipped", runs=9),
        answers("plugin", "passed", "passed", "passed"),
    ]):  # fmt: skip
        paths.append(tmp_path / f"{number}.json")
        paths[-1].write_text(json.dumps(result))
    assert compare(*paths) == [
        "stock: 2 passed, 1 skipped, 0 allreduces of 0 tests by SwitchML",
        "graft: 1 passed, 1 failed, 1 skipped, 0 allreduces of 0 tests by SwitchML",
        "plugin: 3 passed, 0 allreduces of 0 tests by SwitchML",
        "Class.test_1: stock passed; graft failed in 1 of 10 runs (E: cuda.cpp:7); plugin passed",
        "Class.test_2: stock skipped; graft skipped; plugin passed",
    ]
