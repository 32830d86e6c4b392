"""Outputs that are tried before the work, and directories that are made for them."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

import pytest
from support import modes, unprivileged

from patchgen.errors import FileError
from patchgen.system import files, outputs


def test_what_can_be_written_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("old")
    for name in ("there", "new", "."):
        if name != ".":
            outputs.try_file(str(tmp_path / name))
    outputs.try_file("/dev/null")
    for name in ("", "new", "a/b/c"):
        outputs.try_directory(str(tmp_path / name))
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
    assert (tmp_path / "there").read_text() == "old"


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cases = [
        (outputs.try_file, "file/x", "Not a directory"),
        (outputs.try_file, "", "Is a directory"),
        (outputs.try_directory, "file", "Not a directory"),
        (outputs.try_directory, "file/x/y", "Not a directory"),
    ]
    for trial, name, why in cases:
        path = os.path.join(tmp_path, name)
        with pytest.raises(FileError) as caught:
            trial(path)
        assert str(caught.value) == f"{path}: {why}"


def test_permission_counts() -> None:
    with unprivileged.directory(0o555) as place, unprivileged.user():
        for trial in (outputs.try_file, outputs.try_directory):
            with pytest.raises(FileError, match=f"^{place}/x: Permission denied"):
                trial(f"{place}/x")


def test_a_full_disk_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    with pytest.raises(FileError, match=f"^{tmp_path}/x: No space left"):
        outputs.try_file(str(tmp_path / "x"))


@pytest.mark.parametrize("error", [None, KeyboardInterrupt, OSError])
def test_a_directory_that_stays_empty_is_removed(
    tmp_path: Path, error: type[BaseException] | None
) -> None:
    (tmp_path / "there").mkdir()

    def fill(path: Path, *, wrote: bool) -> None:
        with outputs.directory(str(path)):
            assert path.is_dir()
            if wrote:
                (path / "file").touch()
            if error is not None:
                raise error

    for path, wrote in (("a/b", False), ("c/d", True), ("there", False)):
        with pytest.raises(error) if error else contextlib.nullcontext():
            fill(tmp_path / path, wrote=wrote)
    left = {"c", "c/d", "c/d/file", "there"} | ({"a", "a/b"} if error is None else set())
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")} == left


@pytest.mark.parametrize(
    ("above", "mask", "directory", "file"),
    [
        (0o755, 0o077, 0o755, 0o644),
        (0o755, 0o027, 0o755, 0o644),
        (0o750, 0o077, 0o750, 0o640),
        (0o700, 0o077, 0o700, 0o600),
        (0o2775, 0o002, 0o2775, 0o664),
        (0o1777, 0o077, 0o755, 0o644),
    ],
)
def test_what_is_installed_is_as_readable_as_the_directory_above(
    tmp_path: Path, above: int, mask: int, directory: int, file: int
) -> None:
    top = tmp_path / "top"
    top.mkdir()
    top.chmod(above)
    home = top / "new" / "home"
    with modes.umask(mask):
        with outputs.shared(str(home)):
            home.mkdir(parents=True)
            files.replace(os.fsencode(home / "file"), b"")
        assert os.umask(mask) == mask
    found = [path.stat().st_mode & 0o7777 for path in (home.parent, home, home / "file")]
    assert found == [directory, directory, file]
