"""The rules of the tests' own files, read from them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
REBUILD = "pytest.mark.rebuild"
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


def left_out(path: Path) -> dict[str, bool]:
    """Tests of a file, and whether `make test` leaves them out as a whole."""
    tests = (node for node in ast.parse(path.read_text(encoding="utf-8")).body
             if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))  # fmt: skip
    return {
        test.name: REBUILD in {ast.unparse(decorator) for decorator in test.decorator_list}
        for test in tests
    }


def test_a_file_that_make_test_runs_in_part_has_a_test_that_it_runs() -> None:
    found = [left_out(path) for path in (TESTS / "integration").rglob("test_*.py")
             if REBUILD in path.read_text(encoding="utf-8")]  # fmt: skip
    assert sum(any(tests.values()) for tests in found) > 1
    assert all(not all(tests.values()) for tests in found)


LONGEST = 15  # lines


def programs(text: str) -> Iterator[int]:
    """Lines where a string begins that is a longer program of Python, C++ or the shell."""
    tree = ast.parse(text)
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)
             for part in node.values}  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            value = "".join(str(getattr(part, "value", "x")) if isinstance(part, ast.Constant)
                            else "x" for part in node.values)  # fmt: skip
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            value = node.value
        else:
            continue
        if id(node) not in parts and value.strip().count("\n") >= LONGEST and is_program(value):
            yield node.lineno


def is_program(text: str) -> bool:
    if text.startswith("#!") or "#include " in text:
        return True
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return False
    return any(isinstance(node, (ast.Import, ast.ImportFrom)) for node in ast.walk(tree))


def test_programs_are_files() -> None:
    """A short one may stand where it is used: longer ones have tests/payload and tests/cpp."""
    found = {
        str(path.relative_to(TESTS)): [*programs(path.read_text(encoding="utf-8"))]
        for path in TESTS.rglob("*.py")
    }
    assert {path: lines for path, lines in found.items() if lines} == {}
