"""The rules of the house, by the map in docs/design.md and the imports and calls themselves."""

from __future__ import annotations

import ast
import fnmatch
import re
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import patchgen

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
def nodes(module: str) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))))


@cache
def uses(module: str) -> frozenset[str]:
    """What a module imports, and all attributes in it, as `os.environ`."""
    found = {ast.unparse(node) for node in nodes(module) if isinstance(node, ast.Attribute)}
    for node in nodes(module):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


@cache
def calls(module: str) -> dict[str, list[ast.Call]]:
    """All calls in a module, by what is called."""
    found: dict[str, list[ast.Call]] = {}
    for node in nodes(module):
        if isinstance(node, ast.Call):
            found.setdefault(ast.unparse(node.func), []).append(node)
    return found


@cache
def imports(module: str) -> frozenset[str]:
    """The modules of the package that are imported, wherever in a module."""
    found = set()
    for name in [one.partition(".")[2] for one in uses(module) if one.startswith("patchgen.")]:
        base = name.rpartition(".")[0]
        known = (name, f"{name}.__init__", base, f"{base}.__init__".lstrip("."))
        found.update([one for one in known if one in MODULES][:1])
    return frozenset(found)


def test_the_house_is_small() -> None:
    inside = {entry.name for entry in PACKAGE.iterdir() if entry.name != "__pycache__"}
    modules = {"__init__.py", "__main__.py", "errors.py", "options.py", "py.typed"}
    assert inside == {"cli", "core", "extras", "system", "templates", *modules}
    faces = {"core/__init__", "extras/__init__"}
    assert {room(module) for module in MODULES} <= {*FLOOR, *faces}
    assert len(ROWS) > 10, "the map is read"


def test_a_module_is_of_a_size_to_read() -> None:
    lines = {name: path.read_text("utf-8").count("\n") for name, path in MODULES.items()}
    assert {module: count for module, count in lines.items() if count > 400} == {}


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


def test_a_small_module_of_one_user_is_a_part_of_it() -> None:
    users: dict[str, set[str]] = {}
    for module in MODULES:
        for name in imports(module) - {module}:
            users.setdefault(name, set()).add(module)
    small = [name for name, path in MODULES.items() if path.read_text().count("\n") <= 30]
    alone = [name for name in small if len(users.get(name, ())) == 1 and not is_payload(name)]
    assert [name for name in alone if not name.endswith("__init__")] == []


def test_no_import_runs_round() -> None:
    TopologicalSorter({module: imports(module) for module in MODULES}).prepare()


def test_only_the_command_line_prints_and_exits() -> None:
    for module in MODULES:
        if room(module) in {"cli", "__main__"} or is_payload(module):
            continue
        assert "click" not in {name.partition(".")[0] for name in uses(module)}, module
        assert not {"print", "exit", "sys.exit"} & {*calls(module)}, module


def test_progress_is_logged_in_one_way() -> None:
    """A logger has one name, and the logger itself puts values into its messages."""
    for module in MODULES:
        loggers = {
            ast.unparse(node.targets[0])
            for node in nodes(module)
            if isinstance(node, ast.Assign) and "logging.getLogger" in ast.unparse(node.value)
        }
        assert loggers <= {"_LOGGER"}, module
        logged = [made for name, made in calls(module).items() if name.startswith("_LOGGER.")]
        messages = [node.args[0] for made in logged for node in made if node.args]
        assert not [ast.unparse(one) for one in messages if isinstance(one, ast.JoinedStr)], module


HANDED_ON = {
    "system.git": "GitPython reads GIT_*, and git gets the rest",
    "system.program": "a program gets ours where its caller names none",
}


def test_only_the_command_line_reads_the_environment() -> None:
    for module in MODULES:
        if room(module) == "cli" or is_payload(module) or module in HANDED_ON:
            continue
        assert not {"os.environ", "os.environb", "os.getenv"} & uses(module), module


STARTERS = {"system.process", "system.program"}
STARTS = re.compile(
    r"os\.(kill|killpg|fork\w*|exec\w+|spawn\w+|posix_spawn\w*|system|popen)|"
    r"signal\.(pthread_kill|raise_signal)|(subprocess|multiprocessing|pty)\b.*"
)


def test_only_the_runner_starts_and_ends_processes() -> None:
    """Of a payload everything may, and to end as it was told is each program's own affair."""
    for module in MODULES:
        if module in STARTERS or is_payload(module):
            continue
        allowed = {"os.kill"} if module == "system.signals" else set()
        assert {name for name in uses(module) if STARTS.fullmatch(name)} == allowed, module


def test_a_command_is_in_the_file_of_its_name() -> None:
    from patchgen.cli import SECTIONS

    names = [name for names in SECTIONS.values() for name in names]
    files = {path.stem for path in (PACKAGE / "cli").glob("*.py")}
    shared = [
        "__init__",
        "console",
        "lab_options",
        "params",
        "path_types",
        "serving",
        "steps",
        "unexpected",
    ]
    assert sorted([*names, *shared]) == sorted(files)


def test_a_command_ends_in_one_way() -> None:
    """By an error of ours, or by `console.end`."""
    allowed = {"cli.console": {"click.exceptions.Exit"}}
    for module in [name for name in MODULES if room(name) == "cli"]:
        exits = {name for name in calls(module) if re.search(r"\bexit$|\bExit$|\b_exit$", name)}
        assert exits == allowed.get(module, set()), module


def test_no_room_of_the_tests_is_left_out(pytestconfig: pytest.Config) -> None:
    tests = Path(__file__).parents[1]
    rooms = {path.parent.relative_to(tests) for path in tests.rglob("test_*.py")}
    assert {Path("unit/core/wheel"), Path("integration/wheel")} <= rooms
    patterns = pytestconfig.getini("norecursedirs")
    parts = {part for room in rooms for part in room.parts}
    assert not [part for part in parts for pattern in patterns if fnmatch.fnmatch(part, pattern)]
