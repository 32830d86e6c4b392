"""Outputs of a command: tried before the work, and made for its results."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator

from patchgen.errors import FileError, file_errors


@contextlib.contextmanager
def directory(path: str) -> Iterator[None]:
    """Make a directory for the block; if that raises, remove the directories it made.

    Raises:
        FileError: it cannot be made.
    """
    missing = []
    above = os.path.abspath(path)
    while not os.path.lexists(above):
        missing.append(above)
        above = os.path.dirname(above)
    with file_errors():
        os.makedirs(path, exist_ok=True)
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):  # it is not empty any more
            for made in missing:
                os.rmdir(made)
        raise


@contextlib.contextmanager
def shared(path: str) -> Iterator[None]:
    """Let whoever may read a directory read what the block makes in it, whatever the umask.

    For installations, which other users run. A missing directory is made like its nearest parent.

    Raises:
        FileError: the directory cannot be looked at.
    """
    with file_errors():
        mode = os.stat(find_existing(os.path.realpath(path))).st_mode
    before = os.umask(0o077)
    os.umask(before & ~(mode & 0o055))
    try:
        yield
    finally:
        os.umask(before)


def try_file(path: str) -> None:
    """Refuse a path to which no file can be written. Changes nothing.

    Raises:
        FileError: says why.
    """
    place = find_existing(os.path.dirname(os.path.realpath(path)))
    with file_errors():
        if os.path.isdir(path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not os.path.exists(path) or os.path.isfile(path):
            _try(place, path)
        elif not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)


def try_directory(path: str) -> None:
    """Refuse a path at which there can be no directory with files. Changes nothing.

    Raises:
        FileError: says why.
    """
    with file_errors():
        _try(find_existing(os.path.realpath(path)), path)


def find_existing(place: str) -> str:
    """Return the path, or its nearest parent that exists."""
    while not os.path.lexists(place):
        place = os.path.dirname(place)
    return place


def make(path: str, advice: str) -> None:
    """Make a directory, if it is missing, and try to write to it.

    Raises:
        FileError: says why, with the advice.
    """
    try:
        try_directory(path)
        with file_errors():
            os.makedirs(path, exist_ok=True)
    except FileError as error:
        raise FileError(f"{error}; {advice}") from error


def make_cache(path: str) -> None:
    """Make a directory in the cache, as `make`."""
    make(path, "name another cache with --cache or XDG_CACHE_HOME")


def publish(made: str, path: str) -> None:
    """Rename a complete directory to its path, unless another process was quicker.

    Raises:
        OSError: it cannot be renamed.
    """
    try:
        os.rename(made, path)
    except OSError:
        if not os.path.isdir(path):
            raise


def _try(place: str, path: str) -> None:
    """Write a byte to an unnamed file in `place`; an error names `path`."""
    try:
        os.stat(os.path.join(place, ""))  # tempfile does not always notice that `dir` is a file
        with tempfile.TemporaryFile(dir=place, buffering=0) as file:
            file.write(b"\0")
    except OSError as error:
        error.filename = path
        raise
