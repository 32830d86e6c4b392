"""clang knows which mutex guards what: it refuses a function that takes another mutex, or none."""

from __future__ import annotations

import shutil
from pathlib import Path

from support.thread_safety import check_sources, find_unchecked_locks, takes_locks

import patchgen
from patchgen.templates import DIRECTORY

DELEGATE = Path(DIRECTORY).resolve() / "delegate"
SOURCES = DELEGATE / "src"
LOCKING = [
    path for path in sorted(SOURCES.rglob("*.?pp")) if takes_locks(path.read_text(encoding="utf-8"))
]
SIMULATOR = Path(patchgen.__file__).parent / "extras" / "lab" / "simulator" / "include"
MARKS = [f'-DSWITCHML_DELEGATE_{name}=""' for name in ("CLIENT", "DIGEST", "FLAGS")]
OPTIONS = [
    "-std=c++17",
    *(f"-I{directory}" for directory in (SOURCES, DELEGATE / "include", SIMULATOR)),
    *MARKS,
]


def test_sources_take_their_locks() -> None:
    check_sources(SOURCES / "unity.cpp", *OPTIONS)


def test_each_lock_is_missed(tmp_path: Path) -> None:
    """In one unit, as headers take most of the compiler's time."""
    mutants = {}
    for path in LOCKING:
        mutant = tmp_path / path.relative_to(SOURCES)
        mutant.parent.mkdir(exist_ok=True)
        mutants[mutant] = path.read_text(encoding="utf-8")
    unit, _ = [Path(shutil.copy(SOURCES / name, tmp_path)) for name in ("unity.cpp", "parts.cpp")]
    assert find_unchecked_locks(mutants, unit, f"-I{tmp_path}", *OPTIONS) == []
