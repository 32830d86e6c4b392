"""Two wheels, entry by entry, and other files."""

from __future__ import annotations

import contextlib
import enum
import hashlib
import os
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Union

from patchgen.errors import OptionsError, file_errors
from patchgen.system.files import sha256
from patchgen.system.zips import BLOCK, permissions, reading

if TYPE_CHECKING:
    import zipfile
    from collections.abc import Iterator, Mapping

    from patchgen.system.zips import Archive


class Aspect(enum.Enum):
    """Aspect in which two archives differ. Only the first three change what is installed."""

    PRESENCE = "presence"
    CONTENTS = "contents"
    MODE = "mode"
    TIME = "time"
    PACKING = "packing"
    ORDER = "order"
    ARCHIVE = "archive"


@dataclass(frozen=True)
class Contents:
    """Contents of a file: its size in bytes and its SHA-256 in hex."""

    size: int
    sha256: str


Value = Union[str, Contents, None]


@dataclass(frozen=True)
class Difference:
    """Difference between two archives: the value on each side, None where it is absent."""

    path: str
    """Path of the file in the archives; empty for the archives themselves."""
    kind: Aspect
    left: Value
    right: Value
    offset: int | None = None
    """The first byte that differs, from 0."""

    @property
    def of_file(self) -> bool:
        """True where the installed files differ, and not only the archives."""
        return self.kind in {Aspect.PRESENCE, Aspect.CONTENTS, Aspect.MODE}


def compare(left: str, right: str) -> list[Difference]:
    """Compares two wheels, or other zip archives.

    Returns:
        Nothing only where their bytes are identical. Differences of files come first.

    Raises:
        OptionsError: one is no zip archive, or a broken one.
        FileError: one cannot be read.
    """
    with reading(left, OptionsError) as one, reading(right, OptionsError) as two:
        found = [
            difference
            for name in sorted(one.entries.keys() | two.entries.keys())
            for difference in _of_entry(one, two, name)
        ]
        found.extend(_order(one, two))
    found.sort(key=lambda difference: not difference.of_file)
    wholes = sha256(left), sha256(right)
    if not found and wholes[0] != wholes[1]:
        found.append(Difference("", Aspect.ARCHIVE, *wholes))
    return found


def compare_files(left: Mapping[str, str], right: Mapping[str, str]) -> list[Difference]:
    """Compares files by their names.

    Args:
        left: path by name.
        right: likewise.

    Returns:
        Nothing only where all of them are there and identical.

    Raises:
        FileError: one cannot be read.
    """
    found = (
        _differ(name, _read(left.get(name)), _read(right.get(name)))
        for name in sorted({**left, **right})
    )
    return [one for one in found if one is not None]


def _read(path: str | None) -> bytes | None:
    if path is None or not os.path.isfile(path):
        return None
    with file_errors(), open(path, "rb") as file:
        return file.read()


def _differ(name: str, left: bytes | None, right: bytes | None) -> Difference | None:
    """Difference of two contents; None where there is none."""
    if left == right:
        return None
    one, two = _measure(left), _measure(right)
    if left is None or right is None:
        return Difference(name, Aspect.PRESENCE, one, two)
    shorter = min(len(left), len(right))
    blocks = range(0, shorter, BLOCK)
    begin = next((at for at in blocks if left[at : at + BLOCK] != right[at : at + BLOCK]), shorter)
    offset = next((at for at in range(begin, shorter) if left[at] != right[at]), shorter)
    return Difference(name, Aspect.CONTENTS, one, two, offset)


def _measure(content: bytes | None) -> Contents | None:
    if content is None:
        return None
    return Contents(len(content), hashlib.sha256(content).hexdigest())


def _of_entry(one: Archive, two: Archive, name: str) -> Iterator[Difference]:
    left, right, offset = _contents(one, two, name)
    if left is None or right is None:
        yield Difference(name, Aspect.PRESENCE, left, right)
        return
    if offset is not None:
        yield Difference(name, Aspect.CONTENTS, left, right, offset)
    values = zip(_metadata(one.entries[name]), _metadata(two.entries[name]))
    for kind, (mine, theirs) in zip((Aspect.MODE, Aspect.TIME, Aspect.PACKING), values):
        if mine != theirs:
            yield Difference(name, kind, mine, theirs)


def _contents(
    one: Archive, two: Archive, name: str
) -> tuple[Contents | None, Contents | None, int | None]:
    """Contents of each side, read once, and the offset of the first byte that differs."""
    digests = hashlib.sha256(), hashlib.sha256()
    sizes = [0, 0]
    offset = None
    with contextlib.ExitStack() as stack:
        streams: list[Iterator[bytes]] = [
            stack.enter_context(contextlib.closing(side.blocks(name)))
            if name in side.entries
            else iter(())
            for side in (one, two)
        ]
        for blocks in zip_longest(*streams, fillvalue=b""):
            if offset is None and blocks[0] != blocks[1]:
                pairs = enumerate(zip(*blocks))
                shorter = min(map(len, blocks))
                offset = sizes[0] + next((i for i, pair in pairs if pair[0] != pair[1]), shorter)
            for side, block in enumerate(blocks):
                digests[side].update(block)
                sizes[side] += len(block)
    left, right = (
        Contents(size, digest.hexdigest()) if name in archive.entries else None
        for archive, size, digest in zip((one, two), sizes, digests)
    )
    return left, right, offset


def _metadata(info: zipfile.ZipInfo) -> tuple[str, str, str]:
    """The mode, the time and the packing of an entry."""
    time = "{:04}-{:02}-{:02} {:02}:{:02}:{:02}".format(*info.date_time)
    return f"{permissions(info):04o}", time, f"method {info.compress_type}"


def _order(one: Archive, two: Archive) -> Iterator[Difference]:
    """Yields the first entry out of order, as one entry moved displaces all behind it."""
    left = [name for name in one.entries if name in two.entries]
    right = [name for name in two.entries if name in one.entries]
    for mine, theirs in zip(left, right):
        if mine != theirs:
            yield Difference("", Aspect.ORDER, mine, theirs)
            return
