"""The rules of the tests' own files, read from them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
MODULES = {path.stem for path in TESTS.rglob("test_*.py")}


def imported(path: Path) -> set[str]:
    """Last parts of the modules that a file imports, and of names that it takes from them."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {alias.name.rpartition(".")[2] for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            found.add((node.module or "").rpartition(".")[2])
    return found


def test_no_file_imports_a_test_file() -> None:
    found = {str(path): imported(path) & MODULES for path in TESTS.rglob("*.py")}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "line", ["import test_docs", "from test_docs import pages", "from unit import test_docs"]
)
def test_an_import_of_a_test_file_is_found(line: str, tmp_path: Path) -> None:
    path = tmp_path / "test_other.py"
    path.write_text(f"def test() -> None:\n    {line}\n")
    assert imported(path) & MODULES == {"test_docs"}
