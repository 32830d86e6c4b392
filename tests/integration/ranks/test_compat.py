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


def record(page: Path, *results: Path, explanations: str = "[]") -> str:
    entries = page.parent / "explanations.json"
    entries.write_text(explanations)
    summary = page.parent / "summary.md"
    for written in (page, summary):
        written.write_text("before\n<!-- record -->\nold\n<!-- end of record -->\nafter\n")
    command: list[str | Path] = [sys.executable, COMPAT / "record.py", *results]
    command += ["--page", page, "--summary", summary, "--explanations", entries]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for written in (page, summary):
        text = written.read_text()
        assert text.startswith("before\n<!-- record -->\n")
        assert text.endswith("<!-- end of record -->\nafter\n")
        assert "old" not in text
    return page.read_text()


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
    text = record(tmp_path / "page.md", tmp_path / "stock.json", tmp_path / "graft.json")
    assert "`GlooTest.test_fails`: failed (AssertionError: 1 != 2) in every way. " in text
    assert text.count("**Not explained.**") == 3


def answers(way: str, *outcomes: str, why: str = "", runs: int = 1) -> dict[str, Any]:
    tests = {
        f"Class.test_{number}": {
            "outcome": outcome,
            "why": why if outcome == "failed" else "",
            "seconds": 1.0,
            "summed": 0,
            "runs": runs,
            "failed": int(outcome == "failed"),
        }
        for number, outcome in enumerate(outcomes)
    }
    module = {"code": 0, "tests": tests}
    return {
        "torch": "9.0",
        "python": "3.99",
        "tests": "torch",
        "way": way,
        "modules": {"test_c10d_gloo": module},
    }


def test_a_page_tells_every_difference(tmp_path: Path) -> None:
    paths = []
    why = "RuntimeError: /usr/lib/torch/cuda.cpp:7"
    for number, result in enumerate(
        [
            answers("stock", "passed", "passed", "skipped"),
            answers("graft", "passed", "failed", "skipped", why=why),
            answers("graft", "passed", "passed", "skipped", runs=9),
            answers("plugin", "passed", "passed", "passed"),
        ]
    ):
        paths.append(tmp_path / f"{number}.json")
        paths[-1].write_text(json.dumps(result))
    entries = [{"torch": "9", "way": "graft", "test": "*.test_1", "text": "The moon was full."}]
    text = record(tmp_path / "page.md", *paths, explanations=json.dumps(entries))
    assert "## torch 9.0, Python 3.99, its own tests, as it is installed" in text
    assert (
        "- `Class.test_1`: stock passed; graft failed in 1 of 10 runs (RuntimeError: cuda.cpp:7); "
        "plugin passed. The moon was full.\n" in text
    )
    assert (
        "- `Class.test_2`: stock skipped; graft skipped; plugin passed. **Not explained.**\n"
        in text
    )
    assert "Class.test_0" not in text
    row = (
        "| 9.0 | the wheel | 2 passed, 1 skipped | 1 passed, 1 failed, 1 skipped |  | 3 passed |  |"
    )
    assert row in (tmp_path / "summary.md").read_text()
