"""Reads zip archives in blocks. An invalid archive is an error of the caller's family."""

from __future__ import annotations

import contextlib
import errno
import lzma
import struct
import zipfile
import zlib
from collections.abc import Generator, Iterator
from typing import BinaryIO, NoReturn, cast

from patchgen.errors import PatchgenError, file_errors
from patchgen.system import paths

BLOCK = 1 << 20  # bytes
NO_ARCHIVE = "not a zip archive"

# Errors of zipfile on invalid or damaged archives.
_FAULTS = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError,
    RuntimeError, ValueError, OverflowError, IndexError,
)  # fmt: skip


class Archive:
    """Entries of an archive by name, in its own order, without directories."""

    def __init__(self, path: str, file: zipfile.ZipFile, family: type[PatchgenError]) -> None:
        self._path = path
        self._file = file
        self._family = family
        self.entries: dict[str, zipfile.ZipInfo] = {}
        for info in file.infolist():
            if info.filename in self.entries:
                self.refuse(f"two entries named {paths.printable(info.filename)}")
            if not info.filename.endswith("/"):
                self.entries[info.filename] = info

    def refuse(self, why: str) -> NoReturn:
        """Raise an error about this archive.

        Raises:
            PatchgenError: of the caller's family.
        """
        raise self._family(f"{self._path}: {why}")

    @contextlib.contextmanager
    def member(self, name: str) -> Iterator[BinaryIO]:
        """Open an entry."""
        about = f"{self._path}: {paths.printable(name)}: not a sound entry"
        with _faults(self._family, about), self._file.open(self.entries[name]) as member:
            yield cast("BinaryIO", member)

    def read(self, name: str) -> bytes:
        """Return the content of a small entry; its CRC is checked."""
        with self.member(name) as member:
            return member.read()

    def blocks(self, name: str) -> Generator[bytes, None, None]:
        """Yield an entry in blocks of at most `BLOCK` bytes; its CRC is checked."""
        with self.member(name) as member:
            while block := member.read(BLOCK):
                yield block


@contextlib.contextmanager
def reading(path: str, family: type[PatchgenError]) -> Iterator[Archive]:
    """Open an archive.

    Raises:
        PatchgenError: of `family`: it is no archive, or has two entries of the same name.
        FileError: it cannot be read.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(file_errors())
        with _faults(family, f"{path}: {NO_ARCHIVE}"):
            file = stack.enter_context(zipfile.ZipFile(path))
        yield Archive(path, file, family)


def permissions(info: zipfile.ZipInfo) -> int:
    """Return the Unix permissions of an entry; 0 if the archive has none."""
    return info.external_attr >> 16 & 0o7777


@contextlib.contextmanager
def _faults(family: type[PatchgenError], about: str) -> Iterator[None]:
    """Turn zipfile's errors on a damaged archive into one line."""
    try:
        yield
    except (*_FAULTS, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:  # a seek before the start
            raise
        reason = " ".join(str(error).split()) or type(error).__name__
        raise family(f"{about}: {reason}") from error
