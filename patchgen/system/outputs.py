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
    """A directory for what the block writes. Where that raises, what was made for it is removed.

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
        with contextlib.suppress(OSError):  # it holds something by now
            for made in missing:
                os.rmdir(made)
        raise


def try_file(path: str) -> None:
    """Refuses a path that no file can be written to. Nothing is changed.

    Raises:
        FileError: why.
    """
    place = _nearest(os.path.dirname(os.path.realpath(path)))
    with file_errors():
        if os.path.isdir(path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not os.path.exists(path) or os.path.isfile(path):
            _try(place, path)
        elif not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)


def try_directory(path: str) -> None:
    """Refuses a path at which there can be no directory with files. Nothing is changed.

    Raises:
        FileError: why.
    """
    with file_errors():
        _try(_nearest(os.path.realpath(path)), path)


def _nearest(place: str) -> str:
    """The path, or the nearest one above that is there."""
    while not os.path.lexists(place):
        place = os.path.dirname(place)
    return place


def make_cache(path: str) -> None:
    """Makes a directory in the cache, unless it is there.

    Raises:
        FileError: why it cannot be made, and what names another.
    """
    try:
        try_directory(path)
        with file_errors():
            os.makedirs(path, exist_ok=True)
    except FileError as error:
        raise FileError(f"{error}; name another cache with --cache or XDG_CACHE_HOME") from error


def _try(place: str, path: str) -> None:
    """Writes a byte into a file without a name, in a directory that may have to have `path`."""
    try:
        os.stat(os.path.join(place, ""))  # tempfile tells a file from a directory only by luck
        with tempfile.TemporaryFile(dir=place, buffering=0) as file:
            file.write(b"\0")
    except OSError as error:
        error.filename = path
        raise
