"""Files: written whole or not at all, told apart by what they hold, and scratch directories."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from patchgen.errors import file_errors
from patchgen.system import signals

TEMPORARY = ".switchml-tmp"
"""Suffix of files whose writer has not finished, or was killed."""

_BLOCK = 1 << 20  # bytes


@dataclass(frozen=True)
class Artifact:
    """The name of a file without its directory, its size in bytes and its SHA-256 in hex."""

    name: str
    size: int
    sha256: str


def measure(path: str) -> Artifact:
    """Reads a file.

    Raises:
        FileError: it cannot be read.
    """
    with file_errors():
        return Artifact(os.path.basename(path), os.path.getsize(path), sha256(path))


def sha256(path: str) -> str:
    """The SHA-256 of a file in hex; the file may be larger than memory.

    Raises:
        OSError: it cannot be read.
    """
    with open(path, "rb") as file:
        if sys.version_info >= (3, 11):
            return hashlib.file_digest(file, "sha256").hexdigest()
        digest = hashlib.sha256()
        while block := file.read(_BLOCK):
            digest.update(block)
        return digest.hexdigest()


def digest(value: object) -> str:
    """SHA-256 in hex of a value that JSON takes; the order of keys is no part of it."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode("ascii")).hexdigest()


def write(path: str, content: bytes) -> None:
    """Writes a file of a directory that nobody else looks into yet.

    Raises:
        OSError: it names the file, also where the disk is full.
    """
    with _named(path), open(path, "wb") as file:
        file.write(content)


def copy(source: str, target: str) -> None:
    """Copies a small file, without its mode.

    Raises:
        OSError: it names the file that cannot be read, or written.
    """
    with open(source, "rb") as file:
        content = file.read()
    write(target, content)


@contextlib.contextmanager
def _named(path: str | bytes) -> Iterator[None]:
    """Names the file in an error of a block that writes it, which the system does not."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = path
        raise


def write_new(path: bytes, content: bytes) -> None:
    """Creates a file that must not exist, and waits until it is on the disk.

    Raises:
        OSError: nothing is left behind.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with _named(path), open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        os.unlink(path)
        raise


def replace(path: bytes, content: bytes) -> None:
    """Writes `path` atomically, in a directory that is made; its mode stays.

    A device or pipe is written in place.

    Raises:
        OSError: the file is as it was.
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
    """A file that takes the place of `path` at the end; a killed run's draft is written over.

    One run at a time may write a path. The mode follows the umask.

    Raises:
        FileError: the file system refused; `path` is as it was.
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
                error.filename = path  # nobody knows the temporary name
            raise


@contextlib.contextmanager
def scratch(purpose: str, place: str | None = None) -> Iterator[str]:
    """A new directory, removed at the end, after Ctrl-C, SIGTERM and SIGHUP.

    After SIGKILL, which leaves no time for that, a later run removes it.

    Args:
        purpose: a word of its name.
        place: where it is made; None: TMPDIR.

    Raises:
        FileError: there is no room, or the file system refused otherwise.
    """
    from patchgen.system import leftovers  # for what is more than one file

    with (
        signals.cleaning_up(),
        file_errors(),
        leftovers.owned(purpose, place or tempfile.gettempdir()) as path,
    ):
        yield os.path.realpath(path)


def room(directory: str) -> float:
    """The bytes that are free where a directory is; infinite where that is not known."""
    try:
        system = os.statvfs(directory)
    except OSError:
        return math.inf
    return system.f_bavail * system.f_frsize if system.f_blocks else math.inf


def _umask() -> int:
    """Reads the umask, which takes setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
