from __future__ import annotations

import os

import pytest

from patchgen.system import paths


@pytest.mark.parametrize("data", [b"/a b", "/ü/日".encode(), b"/\xff\xfe", bytes(range(1, 256))])
def test_any_bytes_round_trip(data: bytes) -> None:
    assert paths.encode(paths.decode(data)) == data
    assert paths.encode(paths.from_native(os.fsdecode(data))) == data


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/plain ü", "/plain ü"),
        ("/\udcff", "/\\xff"),
        ("/a\nb", "/a\\nb"),
        ("\x1b[31m", "\\x1b[31m"),
    ],
)
def test_what_is_shown_is_one_printable_line(text: str, shown: str) -> None:
    assert paths.printable(text) == shown
