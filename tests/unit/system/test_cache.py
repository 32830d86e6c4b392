"""What is built once is found again, by whatever made a difference."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from patchgen.errors import OptionsError
from patchgen.system import cache

if TYPE_CHECKING:
    from pathlib import Path


def test_what_was_built_is_kept(tmp_path: Path) -> None:
    made = []

    def make(directory: str) -> None:
        made.append(directory)
        with open(os.path.join(directory, "file"), "w", encoding="ascii") as file:
            file.write("content")

    first = cache.kept(str(tmp_path / "a cache"), "thing", ["x", 1], make)
    assert cache.kept(str(tmp_path / "a cache"), "thing", ["x", 1], make) == first
    other = cache.kept(str(tmp_path / "a cache"), "thing", ["x", 2], make)
    assert len({first, other}) == len(made) == 2
    assert os.listdir(other) == ["file"]
    assert sorted(os.listdir(os.path.dirname(first))) == sorted(
        map(os.path.basename, (first, other))
    )


def test_nothing_is_kept_of_what_failed(tmp_path: Path) -> None:
    def make(directory: str) -> None:
        raise OptionsError(directory)

    with pytest.raises(OptionsError):
        cache.kept(str(tmp_path), "thing", [], make)
    assert os.listdir(tmp_path) == []


def test_another_run_was_quicker(tmp_path: Path) -> None:
    def make(directory: str) -> None:
        open(os.path.join(directory, "mine"), "w", encoding="ascii").close()
        if not entered:
            entered.append(directory)
            nested.append(cache.kept(str(tmp_path), "thing", [], make))

    entered: list[str] = []
    nested: list[str] = []
    assert cache.kept(str(tmp_path), "thing", [], make) == nested[0]
    assert os.listdir(nested[0]) == ["mine"]
    assert len(os.listdir(tmp_path / "run")) == 1
