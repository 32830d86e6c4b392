"""RECORD: what a wheel says of its own files (PyPA, "Binary distribution format")."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchgen.system import paths

if TYPE_CHECKING:
    from collections.abc import Iterable

    from patchgen.system.zips import Archive

ALGORITHM = "sha256"
# The format wants sha256 or better.
_KNOWN = (ALGORITHM, "sha384", "sha512")
_FIELDS = 3


@dataclass(frozen=True)
class Row:
    """A file of a wheel: its hash as `algorithm=urlsafe-base64`, and its size in bytes."""

    path: str
    digest: str
    size: int

    @property
    def algorithm(self) -> str:
        """The name of the hash, as hashlib has it."""
        return self.digest.partition("=")[0]


def encoded(digest: bytes, algorithm: str = ALGORITHM) -> str:
    """A hash as RECORD has it."""
    return f"{algorithm}={base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def find(archive: Archive) -> str:
    """The name of the RECORD of a wheel; an archive without one is refused."""
    found = [name for name in archive.entries if _is_record(name)]
    if len(found) != 1:
        archive.refuse(
            f"no wheel: has {len(found) or 'no'} *.dist-info/RECORD{'s' if found else ''}"
        )
    return found[0]


def read(archive: Archive, record: str) -> dict[str, Row]:
    """The rows of a RECORD but for its own; the archive is refused where they cannot be used."""
    content = b"".join(archive.blocks(record))
    try:
        fields = list(csv.reader(io.StringIO(content.decode(), newline="")))
    except (UnicodeDecodeError, csv.Error) as error:
        archive.refuse(f"{record}: no RECORD: {error}")
    rows: dict[str, Row] = {}
    for line in fields:
        if not line or line[0] == record:
            continue
        row = _row(line)
        if row is None:
            archive.refuse(
                f"{record}: {paths.printable(','.join(line))}: "
                f"not a path, a hash ({', '.join(_KNOWN)}) and a size"
            )
        if row.path in rows:
            archive.refuse(f"{record}: names {paths.printable(row.path)} twice")
        rows[row.path] = row
    return rows


def written(rows: Iterable[Row], record: str) -> bytes:
    """The content of a RECORD."""
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerows((row.path, row.digest, row.size) for row in rows)
    writer.writerow((record, "", ""))
    return file.getvalue().encode()


def _is_record(name: str) -> bool:
    directory, _, file = name.rpartition("/")
    return file == "RECORD" and directory.endswith(".dist-info") and "/" not in directory


def _row(line: list[str]) -> Row | None:
    if len(line) != _FIELDS or not line[2].isdecimal():
        return None
    algorithm, equals, value = line[1].partition("=")
    if not equals or algorithm not in _KNOWN:
        return None
    try:
        length = len(base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)))
    except ValueError:
        return None
    if length != hashlib.new(algorithm).digest_size:
        return None
    return Row(line[0], line[1], int(line[2]))
