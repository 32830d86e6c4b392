"""What is read from pipes, and the lines of it."""

from __future__ import annotations

import os
import threading

from patchgen.system.pipes import Lines, Pipes


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


def test_all_that_was_written_is_given_out() -> None:
    reading, writing = os.pipe()

    def write() -> None:
        with open(writing, "wb") as file:
            file.writelines(b"%d\n" % number for number in range(20000))
            file.write(b"last words")

    seen: list[bytes] = []
    pipes = Pipes()
    pipes.read(reading, Lines(seen.append))
    writer = threading.Thread(target=write)
    writer.start()
    while pipes.open:
        pipes.turn(1)
    writer.join()
    pipes.close()
    os.close(reading)
    assert seen == [*(b"%d\n" % number for number in range(20000)), b"last words\n"]
