"""clang knows which mutex guards what: it refuses a function that takes another mutex, or none."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.thread_safety import check_sources, find_unchecked_locks, locking

import patchgen
from patchgen.templates import DIRECTORY

TEMPLATES = Path(DIRECTORY).resolve()
DELEGATE = TEMPLATES / "delegate"
SOURCES = DELEGATE / "src"
POOLS = [path for path in locking(TEMPLATES / "plugin") if path.name.startswith("WorkPool")]
"""Sources of the plugin that need no torch. Those with torch are compiled with clang as well."""
SIMULATOR = Path(patchgen.__file__).parent / "extras" / "lab" / "simulator" / "include"
MARKS = [f'-DSWITCHML_DELEGATE_{name}=""' for name in ("CLIENT", "DIGEST", "FLAGS")]
OPTIONS = [
    "-std=c++17",
    *(f"-I{directory}" for directory in (SOURCES, DELEGATE / "include", SIMULATOR)),
    *MARKS,
]


def test_sources_take_their_locks() -> None:
    check_sources(SOURCES / "unity.cpp", *OPTIONS)


@pytest.mark.parametrize("path", [*locking(SOURCES), *POOLS], ids=lambda path: path.stem)
def test_each_lock_is_missed(path: Path, tmp_path: Path) -> None:
    assert find_unchecked_locks(path, tmp_path / path.name, *OPTIONS) == []
