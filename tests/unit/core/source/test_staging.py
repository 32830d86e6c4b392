"""patchgen.core.source.staging: a checked-out commit is moved to its path file by file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from patchgen.core.source import staging
from patchgen.core.source.repository import Repository

NAMES = {".clang-format", ".git", ".gitignore", "README.md", "src"}


class Killed(BaseException):
    """End of the process between two steps."""


@pytest.fixture
def submodule(tmp_path: Path) -> Repository:
    """A submodule whose files are checked out, and not yet at their path."""
    git_dir = tmp_path / ".git" / "modules" / "gloo"
    staged = git_dir / staging._STAGING
    for name in NAMES:
        (staged / name).mkdir(parents=True)
    (tmp_path / "gloo").mkdir()
    return Repository(str(tmp_path), "gloo", ("gloo",), str(git_dir), "1" * 40, "")


def test_git_finds_a_submodule_only_with_all_its_files(
    submodule: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between any two files, and begun again each time."""
    rename = os.rename
    moved: list[str] = []

    def rename_one(source: str, target: str) -> None:
        if moved:
            raise Killed
        rename(source, target)
        moved.append(target)

    monkeypatch.setattr(os, "rename", rename_one)
    git: Any = None  # everything is checked out
    for count in range(1, len(NAMES)):
        moved.clear()
        with pytest.raises(Killed):
            staging.place(git, submodule)
        names = os.listdir(submodule.work_tree)
        assert len(names) == count
        assert ".git" not in names
        assert staging.is_staged(submodule)
        assert not staging.is_placed(submodule)
    moved.clear()
    staging.place(git, submodule)
    assert {*os.listdir(submodule.work_tree)} == NAMES
    assert not staging.is_staged(submodule)
