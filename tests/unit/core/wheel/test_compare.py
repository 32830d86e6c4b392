from __future__ import annotations

import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from support.wheelhouse import Entry, zipped

from patchgen.core.wheel.compare import Aspect, Contents, Difference, compare
from patchgen.errors import OptionsError
from patchgen.system.zips import BLOCK

A = [Entry("torch/__init__.py", b"import x\n"), Entry("torch/lib/x.so", b"\x7fELF?"), Entry("e")]


def compared(tmp_path: Path, left: list[Entry], right: list[Entry]) -> list[Difference]:
    one, two = zipped(tmp_path / "1.whl", left), zipped(tmp_path / "2.whl", right)
    return compare(str(one), str(two))


def contents(data: bytes) -> Contents:
    return Contents(len(data), hashlib.sha256(data).hexdigest())


def test_nothing_differs_where_the_bytes_are_the_same(tmp_path: Path) -> None:
    assert compared(tmp_path, A, A) == []


def test_a_file_in_one_only(tmp_path: Path) -> None:
    more = Entry("torch/more", b"12")
    assert compared(tmp_path, [*A, more], A) == [
        Difference("torch/more", Aspect.PRESENCE, contents(b"12"), None)
    ]
    assert compared(tmp_path, A, [*A, more]) == [
        Difference("torch/more", Aspect.PRESENCE, None, contents(b"12"))
    ]


@pytest.mark.parametrize(
    ("left", "right", "offset"),
    [
        (b"abc", b"abd", 2),
        (b"abc", b"abcd", 3),
        (b"", b"x", 0),
        (b"a" * BLOCK + b"b", b"a" * BLOCK + b"c", BLOCK),
        (b"a" * BLOCK, b"a" * BLOCK + b"c", BLOCK),
        (b"a" * 2 * BLOCK + b"xy", b"a" * 2 * BLOCK + b"xz", 2 * BLOCK + 1),
    ],
)
def test_contents_with_the_first_byte_that_differs(
    tmp_path: Path, left: bytes, right: bytes, offset: int
) -> None:
    found = compared(tmp_path, [*A, Entry("f", left)], [*A, Entry("f", right)])
    assert found == [Difference("f", Aspect.CONTENTS, contents(left), contents(right), offset)]


def test_metadata_of_files(tmp_path: Path) -> None:
    other = replace(A[0], mode=0o100755, date=(2002, 2, 3, 4, 5, 6), method=zipfile.ZIP_STORED)
    assert compared(tmp_path, A, [other, *A[1:]]) == [
        Difference(A[0].name, Aspect.MODE, "0644", "0755"),
        Difference(A[0].name, Aspect.TIME, "2001-02-03 04:05:06", "2002-02-03 04:05:06"),
        Difference(A[0].name, Aspect.PACKING, "method 8", "method 0"),
    ]


def test_only_presence_contents_and_mode_are_of_files() -> None:
    of_files = {kind for kind in Aspect if Difference("", kind, None, None).of_file}
    assert of_files == {Aspect.PRESENCE, Aspect.CONTENTS, Aspect.MODE}


def test_order(tmp_path: Path) -> None:
    assert compared(tmp_path, A, [A[0], A[2], A[1]]) == [
        Difference("", Aspect.ORDER, "torch/lib/x.so", "e")
    ]


def test_anything_else_in_the_archives(tmp_path: Path) -> None:
    one, two = zipped(tmp_path / "1.whl", A), zipped(tmp_path / "2.whl", A)
    with zipfile.ZipFile(two, "a") as archive:
        archive.comment = b"made on another machine"
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (one, two)]
    assert compare(str(one), str(two)) == [Difference("", Aspect.ARCHIVE, digests[0], digests[1])]


def test_differences_of_files_come_first(tmp_path: Path) -> None:
    early = replace(A[0], date=(2002, 2, 3, 4, 5, 6))
    found = compared(tmp_path, A, [early, *A[1:], Entry("z", b"z")])
    assert [one.kind for one in found] == [Aspect.PRESENCE, Aspect.TIME]


def test_a_broken_entry_is_named_with_its_archive(tmp_path: Path) -> None:
    one, two = zipped(tmp_path / "1.whl", A), zipped(tmp_path / "2.whl", A)
    content = bytearray(one.read_bytes())
    content[content.index(b"torch/__init__.py") + len(b"torch/__init__.py")] ^= 0xFF
    one.write_bytes(content)
    for pair in ((one, two), (two, one)):
        with pytest.raises(OptionsError, match=f"^{one}: torch/__init__.py: not a sound entry"):
            compare(*map(str, pair))
