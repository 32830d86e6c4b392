from __future__ import annotations

from pathlib import Path

import pytest
from support import unprivileged

from patchgen.core.recipes import Recipe
from patchgen.core.wheel.check import room
from patchgen.system import machine

GIB = 1 << 30


@pytest.mark.parametrize(
    ("free", "cores", "found"),
    [
        (10, 8, "10.0 GiB free, 4 compilers at once on 8 cores"),
        (10, 2, "10.0 GiB free, 2 compilers at once on 2 cores"),
        (2.5, 2, "2.5 GiB free, 1 compilers at once on 2 cores"),
    ],
)
def test_memory(monkeypatch: pytest.MonkeyPatch, free: float, cores: int, found: str) -> None:
    monkeypatch.setattr(machine, "memory", lambda: int(free * GIB))
    monkeypatch.setattr(machine, "cores", lambda: cores)
    row = room.memory(Recipe(memory=2.5))
    assert (row.ok, row.found) == (True, found)


def test_too_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "memory", lambda: 2 * GIB)
    row = room.memory(Recipe(memory=2.5))
    assert row.required
    assert row.found == "2.0 GiB free"
    remedy = "end other programs, add swap, or raise the limit of the control group"
    assert row.problems == (f"a compiler takes up to 2.5 GiB: {remedy}",)


def test_a_directory_that_is_not_there_yet(tmp_path: Path) -> None:
    work = tmp_path / "a/b"
    row = room.disk(Recipe(disk=0), str(work), 0)
    assert row.ok
    assert row.found.startswith(f"{work}, ")
    assert not work.parent.exists()


@pytest.mark.parametrize(("begun", "required"), [(False, True), (True, False)])
def test_too_little_room(tmp_path: Path, *, begun: bool, required: bool) -> None:
    if begun:
        (tmp_path / "source").mkdir()
    row = room.disk(Recipe(disk=1 << 20), str(tmp_path), 6)
    assert row.required == required
    assert ("1.04858e+06 GiB; make room" in row.problems[0]) == (not row.ok)
    assert ("--work" in row.problems[0]) == required


def test_a_directory_that_cannot_be_taken(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with unprivileged.directory(0o555) as directory, unprivileged.user():
        unwritable = room.disk(Recipe(), str(directory / "a/work"), 0)
    for row, why in (
        (room.disk(Recipe(), str(tmp_path / "file/work"), 0), f"{tmp_path}/file is no directory"),
        (unwritable, f"{directory} cannot be written"),
        (
            room.disk(Recipe(), str(tmp_path / "a b"), 0),
            "PyTorch's build takes only letters, digits and / . , + @ - _ in its path",
        ),
    ):
        assert row.problems == (f"{why}; name another directory with --work",)
