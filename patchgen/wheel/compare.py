"""Two wheels, entry by entry."""

from __future__ import annotations

import enum
import hashlib
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Union

from patchgen.errors import OptionsError
from patchgen.system.files import sha256
from patchgen.system.zips import permissions, reading

if TYPE_CHECKING:
    import zipfile
    from collections.abc import Iterator

    from patchgen.system.zips import Archive


class Kind(enum.Enum):
    """Kind of a difference. Only the first three change what is installed."""

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
    kind: Kind
    left: Value
    right: Value
    offset: int | None = None
    """The first byte that differs, from 0."""

    @property
    def of_file(self) -> bool:
        """True where the installed files differ, and not only the archives."""
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
        found = [
            difference
            for name in sorted(one.entries.keys() | two.entries.keys())
            for difference in _of_entry(one, two, name)
        ]
        found.extend(_order(one, two))
    found.sort(key=lambda difference: not difference.of_file)
    wholes = sha256(left), sha256(right)
    if not found and wholes[0] != wholes[1]:
        found.append(Difference("", Kind.ARCHIVE, *wholes))
    return found


def _of_entry(one: Archive, two: Archive, name: str) -> Iterator[Difference]:
    left, right, offset = _contents(one, two, name)
    if left is None or right is None:
        yield Difference(name, Kind.PRESENCE, left, right)
        return
    if offset is not None:
        yield Difference(name, Kind.CONTENTS, left, right, offset)
    values = zip(_metadata(one.entries[name]), _metadata(two.entries[name]))
    for kind, (mine, theirs) in zip((Kind.MODE, Kind.TIME, Kind.PACKING), values):
        if mine != theirs:
            yield Difference(name, kind, mine, theirs)


def _contents(
    one: Archive, two: Archive, name: str
) -> tuple[Contents | None, Contents | None, int | None]:
    """Contents of each side, read once, and the offset of the first byte that differs."""
    digests = hashlib.sha256(), hashlib.sha256()
    sizes = [0, 0]
    offset = None
    streams = [side.blocks(name) if name in side.entries else iter(()) for side in (one, two)]
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
            yield Difference("", Kind.ORDER, mine, theirs)
            return
