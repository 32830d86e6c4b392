"""The same contents, the same wheel: every byte of the archive follows from its files."""

from __future__ import annotations

import hashlib
import stat
import time
import zipfile
from typing import TYPE_CHECKING

from patchgen.errors import TreeError
from patchgen.system import paths, records
from patchgen.system.files import measure, replacing
from patchgen.system.zips import permissions, reading

if TYPE_CHECKING:
    from patchgen.system.records import Row
    from patchgen.system.zips import Archive

# What zip can say of a time: from 1980 to 2107, in steps of two seconds.
_FIRST = 315532800
_LAST = 4354819198

_UNIX = 3
_VERSION = 20  # of the zip format, for what a plain file needs; zipfile raises it where it must


def normalise(source: str, output: str, epoch: int) -> str:
    """Writes a wheel whose bytes depend on nothing but its files, their execute bits and `epoch`.

    Entries are in order, *.dist-info last and RECORD the very last. They are stored, not
    compressed: what deflate makes of the same bytes differs between zlib, its forks and their
    versions, and those differ between machines.

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
    with reading(source, TreeError) as archive:
        record = records.find(archive)
        expected = records.read(archive, record)
        _check_names(archive, record, expected)
        date = time.gmtime(min(max(epoch, _FIRST), _LAST))[:6]
        with replacing(output) as file, zipfile.ZipFile(file, "w") as target:
            rows = [
                _copy(archive, name, target, _entry(name, archive.entries[name], date), expected)
                for name in sorted(expected, key=lambda name: _place(name, record))
            ]
            entry = _entry(record, archive.entries[record], date)
            target.writestr(entry, records.written(rows, record))
    return measure(output).sha256


def _check_names(archive: Archive, record: str, expected: dict[str, Row]) -> None:
    for name, info in archive.entries.items():
        shown = paths.printable(name)
        parts = name.split("/")
        if "\\" in name or ":" in parts[0] or {"", ".", ".."} & {*parts}:
            archive.refuse(f"{shown}: a path outside of the wheel, or not a plain one")
        if stat.S_IFMT(info.external_attr >> 16) not in {0, stat.S_IFREG}:
            archive.refuse(f"{shown}: not a regular file; pip would not install it as what it is")
        if name != record and name not in expected:
            archive.refuse(f"{shown}: not in {record}")
    missing = sorted(expected.keys() - archive.entries.keys())
    if missing:
        archive.refuse(f"{paths.printable(missing[0])}: in {record}, but not in the archive")


def _place(name: str, record: str) -> tuple[bool, str]:
    return name.startswith(record.rpartition("/")[0] + "/"), name


def _entry(name: str, info: zipfile.ZipInfo, date: tuple[int, ...]) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, (date[0], date[1], date[2], date[3], date[4], date[5]))
    entry.create_system = _UNIX
    entry.create_version = entry.extract_version = _VERSION
    entry.compress_type = zipfile.ZIP_STORED
    mode = 0o755 if permissions(info) & 0o111 else 0o644
    entry.external_attr = (stat.S_IFREG | mode) << 16
    return entry


def _copy(
    archive: Archive,
    name: str,
    target: zipfile.ZipFile,
    entry: zipfile.ZipInfo,
    expected: dict[str, Row],
) -> Row:
    """Copies a file and returns its row, after its old one was verified."""
    row = expected[name]
    digests = {kind: hashlib.new(kind) for kind in (records.ALGORITHM, row.algorithm)}
    entry.file_size = archive.entries[name].file_size  # by which zipfile decides about zip64
    size = 0
    with target.open(entry, "w") as written:
        for block in archive.blocks(name):
            for digest in digests.values():
                digest.update(block)
            size += len(block)
            written.write(block)
    found = records.encoded(digests[row.algorithm].digest(), row.algorithm)
    if (found, size) != (row.digest.rstrip("="), row.size):
        archive.refuse(
            f"{paths.printable(name)}: {size} bytes, {found}; "
            f"RECORD says {row.size} bytes, {row.digest}"
        )
    return records.Row(name, records.encoded(digests[records.ALGORITHM].digest()), size)
