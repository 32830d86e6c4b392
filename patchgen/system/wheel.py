"""Wheels: read by their RECORD, and written so that the same files give the same bytes.

Format: PyPA, "Binary distribution format".
"""

from __future__ import annotations

import base64
import contextlib
import csv
import functools
import hashlib
import io
import os
import stat
import time
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Callable, cast

from installer.records import InvalidRecordEntry, RecordEntry, parse_record_file
from installer.utils import copyfileobj_with_hashing

from patchgen.errors import TreeError
from patchgen.system import paths, zips
from patchgen.system.files import replacing, sha256

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from patchgen.errors import PatchgenError

_ALGORITHM = "sha256"
# The format wants sha256 or better.
_KNOWN = (_ALGORITHM, "sha384", "sha512")
# Range of times in a zip: from 1980 to 2107, in steps of two seconds.
_FIRST = 315532800
_LAST = 4354819198
_UNIX = 3
_VERSION = 20  # of the zip format, for what a plain file needs; zipfile raises it where it must
_EXECUTABLE = 0o111


@dataclass(frozen=True)
class Member:
    """A file for a wheel: its size in bytes, its execute bit, and what copies it to a stream."""

    size: int
    executable: bool
    copy: Callable[[BinaryIO], RecordEntry]


class Wheel:
    """An open wheel: `record` is the name of its RECORD, `names` are its other files."""

    def __init__(self, archive: zips.Archive) -> None:
        self._archive = archive
        found = [name for name in archive.entries if _is_record(name)]
        if len(found) != 1:
            many = f"{len(found)} *.dist-info/RECORDs" if found else "no *.dist-info/RECORD"
            archive.refuse(f"no wheel: has {many}")
        self.record = found[0]
        self._rows = self._read()
        self._check_names()
        self.names = sorted(self._rows)

    def member(self, name: str) -> Member:
        """A file, to be copied into another wheel."""
        info = self._archive.entries[name]
        return Member(info.file_size, self.executable(name), functools.partial(self.copy, name))

    def executable(self, name: str) -> bool:
        """True where the archive gives a file an execute bit."""
        return bool(zips.permissions(self._archive.entries[name]) & _EXECUTABLE)

    def copy(self, name: str, target: BinaryIO) -> RecordEntry:
        """Copies a file, block by block, and compares it with RECORD.

        Returns:
            Its entry in RECORD, by sha256 whatever the wheel has.
        """
        expected = self._rows[name]
        with self._archive.member(name) as source:
            compared = found = copy_stream(name, source, target)
        if expected.hash_ is not None and expected.hash_.name != _ALGORITHM:
            with self._archive.member(name) as source, open(os.devnull, "wb") as nowhere:
                compared = copy_stream(name, source, nowhere, expected.hash_.name)
        if compared != expected:
            self._archive.refuse(
                f"{paths.printable(name)}: not what was recorded: {found.size} bytes, "
                f"{found.hash_}; RECORD says {expected.size} bytes, {expected.hash_}"
            )
        return found

    def _read(self) -> dict[str, RecordEntry]:
        rows: dict[str, RecordEntry] = {}
        try:
            text = io.StringIO(self._archive.read(self.record).decode(), newline="")
            for line in parse_record_file(row for row in text if row.strip("\r\n")):
                if line[0] == self.record:
                    continue
                row = _row(*line)
                if row.path in rows:
                    self._archive.refuse(f"{self.record}: names {paths.printable(row.path)} twice")
                rows[row.path] = row
        except (UnicodeDecodeError, csv.Error) as error:
            self._archive.refuse(f"{self.record}: no RECORD: {error}")
        except InvalidRecordEntry as error:
            self._archive.refuse(
                f"{self.record}: {paths.printable(','.join(error.elements))}: "
                f"not a path, a hash ({', '.join(_KNOWN)}) and a size"
            )
        return rows

    def _check_names(self) -> None:
        refuse, entries = self._archive.refuse, self._archive.entries
        for name, info in entries.items():
            shown = paths.printable(name)
            parts = name.split("/")
            if "\\" in name or ":" in parts[0] or {"", ".", ".."} & {*parts}:
                refuse(f"{shown}: outside of the wheel, or not a plain path")
            if stat.S_IFMT(info.external_attr >> 16) not in {0, stat.S_IFREG}:
                refuse(f"{shown}: not a regular file; pip would not install it as what it is")
            if name != self.record and name not in self._rows:
                refuse(f"{shown}: not in {self.record}")
        missing = sorted(self._rows.keys() - entries.keys())
        if missing:
            refuse(f"{paths.printable(missing[0])}: missing, though in {self.record}")


@contextlib.contextmanager
def reading(path: str, family: type[PatchgenError]) -> Iterator[Wheel]:
    """Opens a wheel.

    Raises:
        PatchgenError: of `family`: it is none, or has other files than its RECORD.
        FileError: it cannot be read.
    """
    with zips.reading(path, family) as archive:
        yield Wheel(archive)


def normalise(source: str, output: str, epoch: int) -> str:
    """Writes a wheel whose bytes depend on its files, their execute bits, `epoch` and zlib.

    Args:
        source: a wheel; may be `output`.
        output: replaced when all is written; one run at a time.
        epoch: seconds since 1970, the time of every entry, in UTC.

    Returns:
        The SHA-256 of the output in hex.

    Raises:
        TreeError: the source is no wheel, or not what its RECORD says; nothing is written.
        FileError: the file system refused, or the disk is full.
    """
    with reading(source, TreeError) as wheel:
        members = {name: wheel.member(name) for name in wheel.names}
        write(output, wheel.record, members, epoch)
    return sha256(output)


def write(output: str, record: str, members: Mapping[str, Member], epoch: int) -> None:
    """Writes a wheel: its entries in order, *.dist-info last and RECORD the very last.

    Args:
        output: replaced when all is written; one run at a time.
        record: the name of RECORD in the wheel.
        members: the other files by name.
        epoch: seconds since 1970, the time of every entry, in UTC.

    Raises:
        FileError: the file system refused, or the disk is full.
    """
    date = time.gmtime(min(max(epoch, _FIRST), _LAST))[:6]
    information = record.rpartition("/")[0] + "/"
    rows = []
    with replacing(output) as file, zipfile.ZipFile(file, "w") as target:
        for name in sorted(members, key=lambda name: (name.startswith(information), name)):
            member = members[name]
            entry = _entry(name, date, executable=member.executable)
            entry.file_size = member.size  # by which zipfile decides about zip64
            with target.open(entry, "w") as written:
                rows.append(member.copy(cast("BinaryIO", written)))
        target.writestr(_entry(record, date, executable=False), _listing(rows, record))


def copy_stream(
    name: str, source: BinaryIO, target: BinaryIO, algorithm: str = _ALGORITHM
) -> RecordEntry:
    """Copies a stream, block by block, and gives its entry in RECORD."""
    digest, size = copyfileobj_with_hashing(source, target, algorithm)
    return RecordEntry.from_elements(name, f"{algorithm}={digest}", str(size))


def _entry(name: str, date: tuple[int, ...], *, executable: bool) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, (date[0], date[1], date[2], date[3], date[4], date[5]))
    entry.create_system = _UNIX
    entry.create_version = entry.extract_version = _VERSION
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (stat.S_IFREG | (0o755 if executable else 0o644)) << 16
    return entry


def _listing(rows: list[RecordEntry], record: str) -> bytes:
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerows(row.to_row() for row in rows)
    writer.writerow((record, "", ""))
    return file.getvalue().encode()


def _is_record(name: str) -> bool:
    directory, _, file = name.rpartition("/")
    return file == "RECORD" and directory.endswith(".dist-info") and "/" not in directory


def _row(path: str, digest: str, size: str) -> RecordEntry:
    """An entry with a sound hash and a size, which installer does not ask for."""
    algorithm, _, value = digest.partition("=")
    value = value.rstrip("=")
    try:
        length = len(base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)))
    except ValueError:
        length = 0
    if algorithm not in _KNOWN or length != hashlib.new(algorithm).digest_size:
        raise InvalidRecordEntry(elements=(path, digest, size), issues=("no sound hash",))
    if not size.isdecimal():
        raise InvalidRecordEntry(elements=(path, digest, size), issues=("no size",))
    return RecordEntry.from_elements(path, f"{algorithm}={value}", size)
