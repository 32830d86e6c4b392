"""Two wheels, file by file."""

from __future__ import annotations

import enum
import hashlib
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Union

from patchgen.build import elf
from patchgen.errors import OptionsError
from patchgen.system.files import measure
from patchgen.system.zips import permissions, reading

if TYPE_CHECKING:
    import zipfile
    from collections.abc import Iterator

    from patchgen.system.zips import Archive


class Kind(enum.Enum):
    """What differs. Of these only the first three change what is installed."""

    PRESENCE = "presence"
    CONTENTS = "contents"
    MODE = "mode"
    TIME = "time"
    PACKING = "packing"
    ORDER = "order"
    ARCHIVE = "archive"


@dataclass(frozen=True)
class Contents:
    """What a file holds: its size in bytes and its SHA-256 in hex."""

    size: int
    sha256: str

    def __str__(self) -> str:
        """For people."""
        return f"{self.size} bytes, sha256 {self.sha256}"


Value = Union[str, Contents, None]


@dataclass(frozen=True)
class Difference:
    """One thing that differs, and what it is on each side; None where it is not there."""

    path: str
    """Of the file in the archives; empty for the archives themselves."""
    kind: Kind
    left: Value
    right: Value
    offset: int | None = None
    """The first byte that differs, from 0."""
    sections: tuple[str, ...] = ()
    """Of an ELF file: those that differ."""

    @property
    def of_file(self) -> bool:
        """Whether what is installed differs, and not only the archives."""
        return self.kind in {Kind.PRESENCE, Kind.CONTENTS, Kind.MODE}


def compare(left: str, right: str) -> list[Difference]:
    """Compares two wheels, or other zip archives.

    Returns:
        Nothing only where their bytes are identical. Differences of files come first.

    Raises:
        OptionsError: one is no zip archive, or a broken one.
        FileError: one cannot be read.
    """
    with reading(left, OptionsError) as one, reading(right, OptionsError) as two:
        names = [name for name in one.entries if name in two.entries]
        found = [*_presence(one, two)]
        for name in sorted(names):
            found.extend(_of_entry(one, two, name))
        found.extend(_order(names, [name for name in two.entries if name in one.entries]))
    found.sort(key=lambda difference: not difference.of_file)
    wholes = measure(left).sha256, measure(right).sha256
    if not found and wholes[0] != wholes[1]:
        found.append(Difference("", Kind.ARCHIVE, *wholes))
    return found


def _presence(one: Archive, two: Archive) -> Iterator[Difference]:
    for name in sorted(one.entries.keys() ^ two.entries.keys()):
        if name in one.entries:
            yield Difference(name, Kind.PRESENCE, _contents(one, name), None)
        else:
            yield Difference(name, Kind.PRESENCE, None, _contents(two, name))


def _of_entry(one: Archive, two: Archive, name: str) -> Iterator[Difference]:
    offset = _first_difference(one, two, name)
    if offset is not None:
        yield Difference(
            name, Kind.CONTENTS, _contents(one, name), _contents(two, name),
            offset, _sections(one, two, name),
        )  # fmt: skip
    for kind, said in ((Kind.MODE, _mode), (Kind.TIME, _time), (Kind.PACKING, _packing)):
        left, right = said(one.entries[name]), said(two.entries[name])
        if left != right:
            yield Difference(name, kind, left, right)


def _first_difference(one: Archive, two: Archive, name: str) -> int | None:
    start = 0
    for left, right in itertools.zip_longest(one.blocks(name), two.blocks(name), fillvalue=b""):
        if left != right:
            pairs = enumerate(zip(left, right))
            shorter = min(len(left), len(right))
            return start + next((i for i, pair in pairs if pair[0] != pair[1]), shorter)
        start += len(left)
    return None


def _contents(archive: Archive, name: str) -> Contents:
    digest = hashlib.sha256()
    size = 0
    for block in archive.blocks(name):
        digest.update(block)
        size += len(block)
    return Contents(size, digest.hexdigest())


def _sections(one: Archive, two: Archive, name: str) -> tuple[str, ...]:
    with one.member(name) as file:
        left = elf.sections(file)
    with two.member(name) as file:
        right = elf.sections(file)
    return tuple(sorted(key for key in {*left, *right} if left.get(key) != right.get(key)))


def _mode(info: zipfile.ZipInfo) -> str:
    return f"{permissions(info):04o}"


def _time(info: zipfile.ZipInfo) -> str:
    return "{:04}-{:02}-{:02} {:02}:{:02}:{:02}".format(*info.date_time)


def _packing(info: zipfile.ZipInfo) -> str:
    return f"method {info.compress_type}"


def _order(left: list[str], right: list[str]) -> Iterator[Difference]:
    """Only the first, as one entry moved displaces all behind it."""
    for one, two in zip(left, right):
        if one != two:
            yield Difference("", Kind.ORDER, one, two)
            return
