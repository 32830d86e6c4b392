"""The rules of the tests' own files, read from them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
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


def targets() -> set[str]:
    """Targets of make for tests that `make test` leaves out."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return {*re.findall(r"^(test-[a-z]+):", text, re.MULTILINE)}


def test_what_has_a_target_of_its_own_is_not_forgotten() -> None:
    assert targets() == {path.name for path in (ROOT / "ci").glob("test-*")}
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert {*re.findall(r"^ {4}make (test-[a-z]+)", page, re.MULTILINE)} == targets()
    texts = [path.read_text(encoding="utf-8") for path in TESTS.rglob("*.py")]
    assert {name for text in texts for name in re.findall(r"make (test-[a-z]+)", text)} <= targets()
