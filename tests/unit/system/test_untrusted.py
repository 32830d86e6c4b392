from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from support import unprivileged

from patchgen.errors import FileError
from patchgen.system import untrusted


def test_a_regular_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    assert untrusted.read_file(str(path), 5) == b"12345"
    with pytest.raises(FileError, match=f"^{path}: is longer than 0 MiB$"):
        untrusted.read_file(os.fsencode(path), 4)


@pytest.mark.parametrize("kind", ["device", "pipe", "directory", "link"])
def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "link":
        path.symlink_to("/dev/zero")
    given = "/dev/zero" if kind == "device" else str(path)
    with pytest.raises(FileError, match=f"^{given}: (is not a regular file|Is a directory)$"):
        untrusted.read_file(given)


def test_a_stream_without_an_end() -> None:
    with open("/dev/zero", "rb") as stream, pytest.raises(FileError, match=r"^stdin: is longer"):
        untrusted.read_stream(stream, "stdin")


@pytest.mark.parametrize(
    ("which", "advice"), [("file", "chmod u+r"), ("above", "chmod u+rx its directories")]
)
def test_what_may_not_be_read(which: str, advice: str) -> None:
    with unprivileged.directory() as root:
        above = root / "above"
        above.mkdir()
        (above / "file").touch()
        unprivileged.give(above)
        unprivileged.give(above / "file")
        (above / "file" if which == "file" else above).chmod(0)
        with unprivileged.user(), pytest.raises(FileError, match=f"denied; {re.escape(advice)}$"):
            untrusted.read_file(str(above / "file"))
        above.chmod(0o755)


def test_a_name_is_one_line(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/a\nb\xff"
    with pytest.raises(FileError, match=r"/a\\nb\\xff: No such file"):
        untrusted.read_file(path)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "{", b"\xff"])
def test_what_is_no_json_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        untrusted.parse_json(text)
