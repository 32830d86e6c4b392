"""Lines of what is read from pipes."""

from __future__ import annotations

from patchgen.system.pipes import Lines


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
