"""What is built once is found again, by whatever made a difference."""

from __future__ import annotations

import os
import types
from pathlib import Path

import pytest

from patchgen.errors import FileError, OptionsError
from patchgen.system.native import cache


def test_nothing_is_kept_of_what_failed(tmp_path: Path) -> None:
    def make(directory: str) -> None:
        raise OptionsError(directory)

    with pytest.raises(OptionsError):
        cache.get_or_make(str(tmp_path), "thing", [], make)
    assert os.listdir(tmp_path / "run") == []


def unwanted(directory: str) -> None:
    raise AssertionError(directory)


def test_a_cache_that_cannot_be_written_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match=f"^{tmp_path}/file/run: Not a directory; name .* --cache"):
        cache.get_or_make(str(tmp_path / "file"), "thing", [], unwanted)


def test_a_cache_where_nothing_runs_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.statvfs", lambda _: types.SimpleNamespace(f_flag=os.ST_NOEXEC))
    with pytest.raises(FileError, match=r"mounted noexec, .* --cache or XDG_CACHE_HOME"):
        cache.get_or_make(str(tmp_path), "thing", [], unwanted)


def test_a_cache_that_has_it_is_only_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = cache.get_or_make(str(tmp_path), "thing", [], lambda _: None)

    monkeypatch.setattr("patchgen.system.outputs.try_directory", unwanted)
    assert cache.get_or_make(str(tmp_path), "thing", [], unwanted).path == made.path


def test_another_run_was_quicker(tmp_path: Path) -> None:
    def make(directory: str) -> None:
        open(os.path.join(directory, "mine"), "w", encoding="ascii").close()
        if not entered:
            entered.append(directory)
            nested.append(cache.get_or_make(str(tmp_path), "thing", [], make).path)

    entered: list[str] = []
    nested: list[str] = []
    assert cache.get_or_make(str(tmp_path), "thing", [], make).path == nested[0]
    assert os.listdir(nested[0]) == ["mine"]
    assert len(os.listdir(tmp_path / "run")) == 1
