from __future__ import annotations

import hashlib
import os
import signal
import stat
from pathlib import Path

import pytest

from patchgen.errors import FileError
from patchgen.system import files


def refuse(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_new_file_follows_the_umask_and_an_old_one_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "f"
    mask = os.umask(0o027)
    try:
        files.replace(os.fsencode(path), b"1")
    finally:
        os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o604)
    files.replace(os.fsencode(path), b"2")
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"2", 0o604)


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, step, refuse)
    with pytest.raises(OSError, match="No space"):
        files.replace(os.fsencode(path), b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["f"]


def test_a_symbolic_link_stays_and_its_target_is_written(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    files.replace(os.fsencode(tmp_path / "link"), b"x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"x"


def test_a_directory_is_refused_and_a_device_is_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        files.replace(os.fsencode(tmp_path), b"x")
    files.replace(b"/dev/null", b"x")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_new_file_must_not_exist(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path / "f")
    files.write_new(path, b"x")
    with pytest.raises(FileExistsError):
        files.write_new(path, b"y")
    assert (tmp_path / "f").read_bytes() == b"x"


def test_a_file_by_what_it_holds(tmp_path: Path) -> None:
    content = b"x" * (3 << 20) + b"y"
    (tmp_path / "f").write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    assert files.sha256(str(tmp_path / "f")) == digest
    assert files.measure(str(tmp_path / "f")) == files.Artifact("f", len(content), digest)
    with pytest.raises(FileError, match=f"^{tmp_path}/none: No such file"):
        files.measure(str(tmp_path / "none"))


def test_what_is_written_bit_by_bit_appears_whole(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("old")

    def fill() -> None:
        with files.replacing(str(path)) as file:
            file.write(b"half")
            refuse()

    with pytest.raises(FileError, match=f"^{path}: No space"):
        fill()
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("f", "old")]
    with files.replacing(str(path)) as file:
        file.write(b"new")
        assert path.read_text() == "old"
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("f", "new")]


def test_a_handler_of_the_caller_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    before_hangup = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with files.scratch("verify") as path:
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGHUP) is not signal.SIG_DFL
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
        assert not os.path.exists(path)
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGHUP, before_hangup)


def test_no_room_is_reported_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/nowhere/at/all")
    with pytest.raises(FileError, match="/nowhere/at/all"), files.scratch("verify"):
        pass
