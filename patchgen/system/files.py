"""Files, written atomically and compared by content, and scratch directories."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from patchgen.errors import file_errors
from patchgen.system import signals

TEMPORARY = ".switchml-tmp"
"""Suffix of files whose writer is still running, or was killed."""

_BLOCK = 1 << 20  # bytes


@dataclass(frozen=True)
class Artifact:
    """Name of a file without its directory, size in bytes, and SHA-256 in hex."""

    name: str
    size: int
    sha256: str


def measure(path: str) -> Artifact:
    """Return name, size and SHA-256 of a file.

    Raises:
        FileError: it cannot be read.
    """
    with file_errors():
        return Artifact(os.path.basename(path), os.path.getsize(path), sha256(path))


def sha256(path: str) -> str:
    """Return the SHA-256 of a file in hex; the file may be larger than memory.

    Raises:
        OSError: it cannot be read.
    """
    with open(path, "rb") as file:
        digest = hashlib.sha256()
        while block := file.read(_BLOCK):
            digest.update(block)
        return digest.hexdigest()


def digest(value: object) -> str:
    """Return the SHA-256 of a JSON value in hex; the order of keys does not count."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode("ascii")).hexdigest()


def write(path: str, content: bytes) -> None:
    """Write a file in a directory that nobody else uses yet, so not atomically.

    Raises:
        OSError: names the file, also where the disk is full.
    """
    with _named(path), open(path, "wb") as file:
        file.write(content)


@contextlib.contextmanager
def _named(path: str | bytes) -> Iterator[None]:
    """Add the file name to errors of writing, in which the system leaves it out."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = path
        raise


def write_new(path: bytes, content: bytes, mode: int = 0o666) -> None:
    """Create a file that must not exist, and wait until it is on disk.

    Raises:
        OSError: the file was not created.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with _named(path), open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        os.unlink(path)
        raise


def replace(path: bytes, content: bytes) -> None:
    """Write a file atomically, keep its mode, and make its directory if necessary.

    A device or pipe is written in place.

    Raises:
        OSError: the file is unchanged.
    """
    path = os.path.realpath(path)
    try:
        status = os.stat(path)
    except FileNotFoundError:
        mode = 0o666 & ~_umask()
        os.makedirs(os.path.dirname(path), exist_ok=True)
    else:
        mode = stat.S_IMODE(status.st_mode)
        if not stat.S_ISREG(status.st_mode):
            with _named(path), open(path, "wb") as file:
                file.write(content)
            return
    try:
        descriptor, temporary = tempfile.mkstemp(
            dir=os.path.dirname(path), prefix=b".", suffix=TEMPORARY.encode()
        )
    except OSError as error:
        error.filename = path
        raise
    try:
        with _named(path), open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


@contextlib.contextmanager
def replacing(path: str) -> Iterator[IO[bytes]]:
    """Yield a file that replaces `path` at the end; overwrite a killed run's temporary file.

    Only one process may write a path at a time. The mode follows the umask.

    Raises:
        FileError: the file system refused; `path` is unchanged.
    """
    directory, name = os.path.split(path)
    temporary = os.path.join(directory, f".{name}{TEMPORARY}")
    with file_errors():
        try:
            os.makedirs(directory or ".", exist_ok=True)
            with open(temporary, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException as error:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            if isinstance(error, OSError) and error.filename in {None, temporary}:
                error.filename = path  # the user does not know the temporary name
            raise


@contextlib.contextmanager
def scratch(purpose: str, place: str | None = None) -> Iterator[str]:
    """Make a temporary directory, removed at the end, also after Ctrl-C, SIGTERM and SIGHUP.

    After SIGKILL a later run removes it. Its name has the purpose. It is made in `place`, else
    TMPDIR.

    Raises:
        FileError: the file system refused, or the disk is full.
    """
    from patchgen.system import leftovers  # slow to import, and `generate` does without

    with (
        signals.cleaning_up(),
        file_errors(),
        leftovers.owned(purpose, place or tempfile.gettempdir()) as path,
    ):
        yield os.path.realpath(path)


def room(directory: str) -> float:
    """Return the free bytes of a directory's file system; infinite if unknown."""
    try:
        system = os.statvfs(directory)
    except OSError:
        return math.inf
    return system.f_bavail * system.f_frsize if system.f_blocks else math.inf


def _umask() -> int:
    """Return the umask, which can be read only by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
