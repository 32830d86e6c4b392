"""Compares two wheels entry by entry, and other files."""

from __future__ import annotations

import contextlib
import enum
import hashlib
import os
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Union

from patchgen.errors import OptionsError, file_errors
from patchgen.system.files import sha256
from patchgen.system.zips import BLOCK, Archive, permissions, reading

Blocks = Generator[bytes, None, None]
if TYPE_CHECKING:
    import zipfile


class Aspect(enum.Enum):
    """Aspect in which archives differ. Only the first three change what is installed."""

    PRESENCE = "presence"
    CONTENTS = "contents"
    MODE = "mode"
    TIME = "time"
    PACKING = "packing"
    ORDER = "order"
    ARCHIVE = "archive"


@dataclass(frozen=True)
class Contents:
    """Size of a file in bytes, and its SHA-256 in hex."""

    size: int
    sha256: str


Value = Union[str, Contents, None]


@dataclass(frozen=True)
class Difference:
    """Difference between two archives: the value on each side, None where it is absent."""

    path: str
    """Path in the archives; empty for a difference of the archives themselves."""
    kind: Aspect
    left: Value
    right: Value
    offset: int | None = None
    """First byte that differs, from 0."""

    @property
    def of_file(self) -> bool:
        """Whether the installed files differ, and not only the archives."""
        return self.kind in {Aspect.PRESENCE, Aspect.CONTENTS, Aspect.MODE}


def compare(left: str, right: str) -> list[Difference]:
    """Compare two wheels, or other zip archives.

    Returns:
        The differences, those of files first; empty only for identical bytes.

    Raises:
        OptionsError: a file is not a zip archive, or a broken one.
        FileError: a file cannot be read.
    """
    with reading(left, OptionsError) as one, reading(right, OptionsError) as two:
        found = [
            difference
            for name in sorted(one.entries.keys() | two.entries.keys())
            for difference in _compare_entry(one, two, name)
        ]
        found.extend(_order(one, two))
    found.sort(key=lambda difference: not difference.of_file)
    wholes = sha256(left), sha256(right)
    if not found and wholes[0] != wholes[1]:
        found.append(Difference("", Aspect.ARCHIVE, *wholes))
    return found


def compare_files(left: Mapping[str, str], right: Mapping[str, str]) -> list[Difference]:
    """Compare files, given as paths by name.

    Returns:
        The differences; empty only if all files exist and are identical.

    Raises:
        FileError: a file cannot be read.
    """
    found = (
        _differ(name, _read_blocks(left.get(name)), _read_blocks(right.get(name)))
        for name in sorted({**left, **right})
    )
    return [one for one in found if one is not None]


def _read_blocks(path: str | None) -> Blocks | None:
    if path is None or not os.path.isfile(path):
        return None
    return _read(path)


def _read(path: str) -> Blocks:
    with file_errors(), open(path, "rb") as file:
        while block := file.read(BLOCK):
            yield block


def _compare_entry(one: Archive, two: Archive, name: str) -> Iterator[Difference]:
    streams = [side.blocks(name) if name in side.entries else None for side in (one, two)]
    found = _differ(name, *streams)
    if found is not None:
        yield found
    if None in streams:
        return
    values = zip(_metadata(one.entries[name]), _metadata(two.entries[name]))
    for kind, (mine, theirs) in zip((Aspect.MODE, Aspect.TIME, Aspect.PACKING), values):
        if mine != theirs:
            yield Difference(name, kind, mine, theirs)


def _differ(name: str, left: Blocks | None, right: Blocks | None) -> Difference | None:
    """Return the difference of two contents, each read once; None if they are equal."""
    digests = hashlib.sha256(), hashlib.sha256()
    sizes = [0, 0]
    offset = None
    with contextlib.ExitStack() as stack:
        for stream in filter(None, (left, right)):
            stack.enter_context(contextlib.closing(stream))
        for blocks in zip_longest(left or (), right or (), fillvalue=b""):
            if offset is None and blocks[0] != blocks[1]:
                pairs = enumerate(zip(*blocks))
                shorter = min(map(len, blocks))
                offset = sizes[0] + next((i for i, pair in pairs if pair[0] != pair[1]), shorter)
            for side, block in enumerate(blocks):
                digests[side].update(block)
                sizes[side] += len(block)
    one, two = (
        None if stream is None else Contents(size, digest.hexdigest())
        for stream, size, digest in zip((left, right), sizes, digests)
    )
    if one is None or two is None:
        return None if one is two else Difference(name, Aspect.PRESENCE, one, two)
    return None if offset is None else Difference(name, Aspect.CONTENTS, one, two, offset)


def _metadata(info: zipfile.ZipInfo) -> tuple[str, str, str]:
    """Return mode, time and compression of an entry, as text."""
    time = "{:04}-{:02}-{:02} {:02}:{:02}:{:02}".format(*info.date_time)
    return f"{permissions(info):04o}", time, f"method {info.compress_type}"


def _order(one: Archive, two: Archive) -> Iterator[Difference]:
    """Yield the first entry out of order, since one moved entry displaces all later ones."""
    left = [name for name in one.entries if name in two.entries]
    right = [name for name in two.entries if name in one.entries]
    for mine, theirs in zip(left, right):
        if mine != theirs:
            yield Difference("", Aspect.ORDER, mine, theirs)
            return
