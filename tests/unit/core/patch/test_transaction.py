from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from patchgen.core.patch import transaction
from patchgen.core.patch.transaction import Change
from patchgen.errors import TreeError

CHANGES = [Change("new", None, b"n"), Change("old", b"o", b"O"), Change("gone", b"g", None)]


def snapshot(root: Path) -> dict[str, tuple[bytes, int, int]]:
    return {
        path.name: (path.read_bytes(), path.stat().st_mtime_ns, stat.S_IMODE(path.stat().st_mode))
        for path in root.iterdir()
    }


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("old", "gone", "other"):
        path = tmp_path / name
        path.write_bytes(name[:1].encode())
        path.chmod(0o640)
        os.utime(path, ns=(10**18, 10**18))
    return tmp_path


def test_all_changes_are_made(root: Path) -> None:
    transaction.perform(str(root), CHANGES, ".tmp")
    assert {name: content for name, (content, _, _) in snapshot(root).items()} == {
        "new": b"n", "old": b"O", "other": b"o",
    }  # fmt: skip
    assert stat.S_IMODE((root / "old").stat().st_mode) == 0o640


@pytest.mark.parametrize("call", range(12))
@pytest.mark.parametrize("error", [OSError(28, "No space"), KeyboardInterrupt()])
@pytest.mark.parametrize("after", [False, True])
def test_any_failure_at_any_step_restores_everything(
    root: Path, monkeypatch: pytest.MonkeyPatch, call: int, error: BaseException, *, after: bool
) -> None:
    before = snapshot(root)
    count = 0

    def failing(name: str) -> Any:  # stands in for functions of os
        real = getattr(os, name)

        def step(*args: Any, **keywords: Any) -> Any:
            nonlocal count
            count += 1
            if count - 1 == call and not after:
                raise error
            result = real(*args, **keywords)
            if count - 1 == call:
                raise error
            return result

        return step

    for name in ("fsync", "replace", "unlink", "chmod"):
        monkeypatch.setattr(os, name, failing(name))
    with contextlib.suppress(OSError, KeyboardInterrupt):
        transaction.perform(str(root), CHANGES, ".tmp")
    monkeypatch.undo()
    if snapshot(root) != before:
        # The one step that cannot be taken back is the removal of a temporary file after all
        # changes were made and verified.
        names = {path.name for path in root.iterdir()}
        assert names == {"new", "old", "other"}
    assert not [path for path in root.iterdir() if path.name.endswith(".tmp")]


def test_somebody_else_s_change_is_kept(root: Path) -> None:
    (root / "old").write_bytes(b"theirs")
    with pytest.raises(TreeError, match="old: changed by somebody else"):
        transaction.perform(str(root), CHANGES, ".tmp")
    assert (root / "old").read_bytes() == b"theirs"
    assert sorted(path.name for path in root.iterdir()) == ["gone", "old", "other"]


def test_a_disk_that_keeps_something_else_is_reported(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = snapshot(root)
    real = os.replace

    def lose(source: bytes, target: bytes) -> None:
        real(source, target)
        Path(os.fsdecode(target)).write_bytes(b"")
        monkeypatch.undo()

    monkeypatch.setattr(os, "replace", lose)
    with pytest.raises(TreeError, match="new: not as it was written"):
        transaction.perform(str(root), CHANGES, ".tmp")
    assert snapshot(root) == before


def test_directories_come_and_go_with_their_files(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = snapshot(root)
    made = [Change("a/b/one", None, b"1"), Change("a/two", None, b"2")]
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", lambda *_: os.unlink("gone"))
        with pytest.raises(OSError, match="gone"):
            transaction.perform(str(root), made, ".tmp")
    assert snapshot(root) == before
    transaction.perform(str(root), made, ".tmp")
    assert (root / "a" / "b" / "one").read_bytes() == b"1"
    taken = [Change(change.path, change.after, None) for change in made]
    transaction.perform(str(root), taken, ".tmp")
    assert snapshot(root) == before


@pytest.mark.parametrize("swapped", ["before", "meanwhile"])
@pytest.mark.parametrize("change", [Change("a/b/new", None, b"n"), Change("a/old", b"o", None)])
def test_no_link_is_followed_out_of_the_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Change, swapped: str
) -> None:
    """Nor if the directory becomes a link while the changes are made."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    (outside / "b").mkdir(parents=True)
    (outside / "old").write_bytes(b"o")
    (root / "a").mkdir(parents=True)
    (root / "a" / "old").write_bytes(b"o")
    (root / "first").write_bytes(b"f")

    def swap() -> None:
        (root / "a").rename(root / "moved")
        (root / "a").symlink_to(outside)

    if swapped == "before":
        swap()
    else:
        real = os.replace

        def replace(source: bytes, target: bytes) -> None:
            real(source, target)
            monkeypatch.undo()
            swap()

        monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(TreeError, match=r"^a: is a symbolic link; put the directory itself there$"):
        transaction.perform(str(root), [Change("first", b"f", b"F"), change], ".tmp")
    assert sorted(path.relative_to(outside).as_posix() for path in outside.rglob("*")) == [
        "b", "old",
    ]  # fmt: skip
    assert (root / "first").read_bytes() == b"f"
