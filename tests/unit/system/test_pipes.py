"""What is read from pipes, and the lines of it."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from patchgen.system.process import Lines, Pipes

if TYPE_CHECKING:
    from pathlib import Path


def test_lines_are_whole() -> None:
    found: list[bytes] = []
    lines = Lines(found.append)

    def given(read: bytes) -> list[bytes]:
        del found[:]
        lines(read)
        return found

    assert given(b"one\ntw") == [b"one\n"]
    assert given(b"o\x0b\nthree\r") == [b"two\x0b\n"]
    assert given(b"\n 10%\r 20%\r") == [b"three\r\n", b" 10%\r"]
    assert given(b"") == [b" 20%\r"]
    assert given(b"no end") == []
    assert given(b"") == [b"no end\n"]
    assert given(b"") == []


def test_a_line_without_an_end_does_not_grow_for_ever() -> None:
    found: list[bytes] = []
    lines = Lines(found.append)
    for _ in range(40):
        lines(b"x" * 65536)
    assert found
    assert 40 * 65536 - sum(len(line) - 1 for line in found) <= 1 << 20


def test_all_that_was_written_is_given_out(tmp_path: Path) -> None:
    reading, writing = os.pipe()

    def write() -> None:
        for name in "ab":
            for _ in range(2):  # a named pipe has no end before all is over
                with open(tmp_path / name, "w", encoding="ascii") as file:
                    file.writelines(f"{number}\n" for number in range(20000))
        os.write(writing, b"last words")
        os.close(writing)

    seen: dict[str, list[bytes]] = {"a": [], "b": [], "other": []}
    pipes = Pipes()
    pipes.read(reading, Lines(seen["other"].append))
    with (
        pipes.named(str(tmp_path / "a"), Lines(seen["a"].append)),
        pipes.named(str(tmp_path / "b"), Lines(seen["b"].append)),
    ):
        writer = threading.Thread(target=write)
        writer.start()
        while pipes.open:
            pipes.turn(1)
        writer.join()
    pipes.close()
    os.close(reading)
    for name in "ab":
        assert b"".join(seen[name]) == b"".join(b"%d\n" % number for number in range(20000)) * 2
    assert seen["other"] == [b"last words\n"]


def test_what_is_left_in_a_named_pipe_is_not_lost(tmp_path: Path) -> None:
    found: list[bytes] = []
    pipes = Pipes()
    with pipes.named(str(tmp_path / "a"), Lines(found.append)):
        (tmp_path / "a").write_bytes(b"one\ntwo")
    pipes.close()
    assert found == [b"one\n", b"two\n"]
