"""Wheels: read by their RECORD, and written so that the same files give the same bytes.

Format: PyPA, "Binary distribution format".
"""

from __future__ import annotations

import base64
import contextlib
import csv
import hashlib
import io
import re
import stat
import time
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Callable, NamedTuple

from patchgen.errors import PatchgenError, TreeError
from patchgen.system import paths, zips
from patchgen.system.files import replacing, sha256

SBOM = "sboms/switchml.cdx.json"
"""Path of our SBOM in *.dist-info, whose directory PEP 770 names."""
CHANGED = "not what was recorded"
_ALGORITHM = "sha256"
# The format wants sha256 or better.
_KNOWN = (_ALGORITHM, "sha384", "sha512")
# Range of times in a zip: from 1980 to 2107, in steps of two seconds.
_FIRST = 315532800
_LAST = 4354819198
_UNIX = 3
_VERSION = 20  # version of the zip format for a plain file; zipfile raises it if necessary
_EXECUTABLE = 0o111
_RECORD = re.compile(r"[^/]*\.dist-info/RECORD")


class Row(NamedTuple):
    """Row of a RECORD, as text."""

    path: str
    hash: str
    """Algorithm and digest, such as sha256=Ab-9_."""
    size: str

    @property
    def algorithm(self) -> str:
        """Name of the hash in hashlib."""
        return self.hash.partition("=")[0]


@dataclass(frozen=True)
class Member:
    """File for a wheel: size in bytes, execute bit, and a function that writes it to a stream."""

    size: int
    executable: bool
    copy: Callable[[IO[bytes]], Row]


def make_member(name: str, content: bytes) -> Member:
    """Return a file for a wheel with this content."""

    def copy(target: IO[bytes]) -> Row:
        return _copy(name, io.BytesIO(content), target)[_ALGORITHM]

    return Member(len(content), executable=False, copy=copy)


class Wheel:
    """An open wheel: `record` is the path of its RECORD, `names` are its other files."""

    def __init__(self, archive: zips.Archive) -> None:
        self._archive = archive
        found = [name for name in archive.entries if _RECORD.fullmatch(name)]
        if len(found) != 1:
            many = f"{len(found)} *.dist-info/RECORDs" if found else "no *.dist-info/RECORD"
            archive.refuse(f"no wheel: has {many}")
        self.record = found[0]
        self._rows = self._read()
        self._check_names()
        self.names = sorted(self._rows)

    def member(self, name: str) -> Member:
        """Return a file, to be copied into another wheel."""
        info = self._archive.entries[name]
        return Member(info.file_size, self.executable(name), lambda target: self.copy(name, target))

    def executable(self, name: str) -> bool:
        """Return whether a file has an execute bit in the archive."""
        return bool(zips.permissions(self._archive.entries[name]) & _EXECUTABLE)

    def copy(self, name: str, target: IO[bytes]) -> Row:
        """Copy a file in blocks, and compare it with RECORD.

        Returns:
            Its row in RECORD with sha256, whatever hash the wheel has.
        """
        expected = self._rows[name]
        with self._archive.member(name) as source:
            rows = _copy(name, source, target, expected.algorithm)
        found = rows[expected.algorithm]
        if found != expected:
            self._archive.refuse(
                f"{paths.printable(name)}: {CHANGED}: {found.size} bytes, "
                f"{found.hash}; RECORD says {expected.size} bytes, {expected.hash}"
            )
        return rows[_ALGORITHM]

    def _read(self) -> dict[str, Row]:
        rows: dict[str, Row] = {}
        try:
            text = io.StringIO(self._archive.read(self.record).decode(), newline="")
            for line in filter(None, csv.reader(text)):
                if line[0] == self.record:
                    continue
                row = _parse(line)
                if row is None:
                    self._archive.refuse(
                        f"{self.record}: {paths.printable(','.join(line))}: "
                        f"not a path, a hash ({', '.join(_KNOWN)}) and a size"
                    )
                if row.path in rows:
                    self._archive.refuse(f"{self.record}: names {paths.printable(row.path)} twice")
                rows[row.path] = row
        except (UnicodeDecodeError, csv.Error) as error:
            self._archive.refuse(f"{self.record}: no RECORD: {error}")
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
    """Open a wheel.

    Raises:
        PatchgenError: of `family`: it is no wheel, or its files differ from RECORD.
        FileError: it cannot be read.
    """
    with zips.reading(path, family) as archive:
        yield Wheel(archive)


def normalise(source: str, output: str, epoch: int, sbom: bytes | None = None) -> str:
    """Write a wheel whose bytes depend on its files, their execute bits, `epoch` and zlib.

    It gets `sbom` as an SBOM. The output replaces an existing file atomically, which may be the
    source. Only one process may write it at a time.

    Returns:
        The SHA-256 of the output in hex.

    Raises:
        TreeError: the source is no wheel, or differs from its RECORD; nothing is written.
        FileError: the file system refused, or the disk is full.
    """
    with reading(source, TreeError) as wheel:
        members = {name: wheel.member(name) for name in wheel.names}
        if sbom is not None:
            name = f"{wheel.record.rpartition('/')[0]}/{SBOM}"
            members[name] = make_member(name, sbom)
        write(output, wheel.record, members, epoch)
    return sha256(output)


def write(output: str, record: str, members: Mapping[str, Member], epoch: int) -> None:
    """Write a wheel atomically: its files in order, *.dist-info last and RECORD at the very end.

    Only one process may write it at a time. Every entry has the time `epoch`, in seconds since
    1970.

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
            entry.file_size = member.size  # zipfile needs it to decide about zip64
            with target.open(entry, "w") as written:
                rows.append(member.copy(written))
        target.writestr(_entry(record, date, executable=False), _listing(rows, record))


def _copy(name: str, source: IO[bytes], target: IO[bytes], *more: str) -> dict[str, Row]:
    """Copy a stream in blocks; return its rows by sha256 and other algorithms."""
    digests, size = {one: hashlib.new(one) for one in (_ALGORITHM, *more)}, 0
    while block := source.read(zips.BLOCK):
        target.write(block)
        size += len(block)
        for digest in digests.values():
            digest.update(block)
    texts = {one: base64.urlsafe_b64encode(found.digest()) for one, found in digests.items()}
    return {
        one: Row(name, f"{one}={text.decode().rstrip('=')}", str(size))
        for one, text in texts.items()
    }


def _entry(name: str, date: tuple[int, ...], *, executable: bool) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, (date[0], date[1], date[2], date[3], date[4], date[5]))
    entry.create_system = _UNIX
    entry.create_version = entry.extract_version = _VERSION
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (stat.S_IFREG | (0o755 if executable else 0o644)) << 16
    return entry


def _listing(rows: list[Row], record: str) -> bytes:
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerows([*rows, (record, "", "")])
    return file.getvalue().encode()


def _parse(line: list[str]) -> Row | None:
    """Return a row with a valid hash, without padding, and a size; None if it is invalid."""
    path, digest, size = (*line, "", "")[:3]
    algorithm, _, value = digest.partition("=")
    value = value.rstrip("=")
    try:
        length = len(base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)))
    except ValueError:
        return None
    sound = algorithm in _KNOWN and length == hashlib.new(algorithm).digest_size
    if len(line) != len(Row._fields) or not sound or not size.isdecimal():
        return None
    return Row(path, f"{algorithm}={value}", size)
