"""Imports between the rooms of the package, by the map in docs/design.md."""

from __future__ import annotations

import ast
import fnmatch
import importlib
import pkgutil
import re
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import click
import pytest

import patchgen
from patchgen import cli

PACKAGE = Path(patchgen.__file__).parent
MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path
    for path in sorted(PACKAGE.rglob("*.py"))
}
PAGE = Path(__file__).parents[2] / "docs" / "design.md"
NAME = re.compile(r"`([^`]+)`")
ROWS = [
    (int(floor), NAME.findall(rooms), {*NAME.findall(extras)})
    for floor, rooms, extras in re.findall(
        r"^\| (\d+) \| ((?:`[^`]+`[, ]*)+)(?:imports ([^|]*))?\|", PAGE.read_text(), re.MULTILINE
    )
]
FLOOR = {room: floor for floor, rooms, _ in ROWS for room in rooms}
BESIDE = {room: extras for _, rooms, extras in ROWS for room in rooms}
"""Extras that a room imports."""


def room(module: str) -> str:
    """A part of the core or of the extras, or what stands at the top."""
    first, _, rest = module.partition(".")
    return f"{first}/{rest.partition('.')[0]}" if first in {"core", "extras"} else first


def is_payload(module: str) -> bool:
    return ".payload." in module


@cache
def names(module: str) -> frozenset[str]:
    """What a module imports, wherever it does."""
    found = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Attribute):  # of a package that was imported
            found.add(ast.unparse(node))
    return frozenset(found)


@cache
def imports(module: str) -> frozenset[str]:
    """The modules of the package that are imported."""
    found = set()
    for name in [one.partition(".")[2] for one in names(module) if one.startswith("patchgen.")]:
        base = name.rpartition(".")[0]
        known = (name, f"{name}.__init__", base, f"{base}.__init__".lstrip("."))
        found.update([one for one in known if one in MODULES][:1])
    return frozenset(found)


def test_every_module_is_in_a_room_of_the_map() -> None:
    faces = {"core/__init__", "extras/__init__"}
    assert {room(module) for module in MODULES} - faces == {*FLOOR} - {"templates"}


def test_no_import_runs_upwards() -> None:
    for module in MODULES:
        mine = FLOOR.get(room(module), 0)
        assert {name for name in imports(module) if FLOOR[room(name)] > mine} == set(), module


def test_the_core_imports_no_extra_and_an_extra_few() -> None:
    for module in [name for name in MODULES if room(name) not in {"cli", "__main__"}]:
        allowed = {room(module), *BESIDE.get(room(module), ())}
        extras = {name for name in imports(module) if name.startswith("extras.")}
        assert {name for name in extras if room(name) not in allowed} == set(), module


def test_what_runs_in_another_python_imports_nothing_of_ours() -> None:
    payload = [name for name in MODULES if is_payload(name)]
    assert {name for module in payload for name in imports(module)} == set()


def test_no_import_runs_round() -> None:
    TopologicalSorter({module: imports(module) for module in MODULES}).prepare()


def test_every_command_is_in_a_section() -> None:
    """The program finds a command in the file of its name, if SECTIONS has that name."""
    for _, name, _ in pkgutil.iter_modules(cli.__path__):
        module = importlib.import_module(f"{cli.__name__}.{name}")
        is_command = isinstance(getattr(module, name, None), click.Command)
        assert is_command == any(name in commands for commands in cli.SECTIONS.values()), name


def test_no_room_of_the_tests_is_left_out(pytestconfig: pytest.Config) -> None:
    tests = Path(__file__).parents[1]
    rooms = {path.parent.relative_to(tests) for path in tests.rglob("test_*.py")}
    assert {Path("unit/core/wheel"), Path("integration/wheel")} <= rooms
    patterns = pytestconfig.getini("norecursedirs")
    parts = {part for room in rooms for part in room.parts}
    assert not [part for part in parts for pattern in patterns if fnmatch.fnmatch(part, pattern)]
