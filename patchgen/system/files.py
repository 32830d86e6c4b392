"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile


def write_new(path: bytes, content: bytes, mode: int = 0o666) -> None:
    """Creates a file that must not exist, and waits until it is on the disk.

    Raises:
        OSError: nothing is left behind.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        os.unlink(path)
        raise


def replace(path: bytes, content: bytes) -> None:
    """Writes `path` atomically; its mode stays. A device or pipe is written in place.

    Raises:
        OSError: the file is as it was.
    """
    path = os.path.realpath(path)
    try:
        status = os.stat(path)
    except FileNotFoundError:
        mode = 0o666 & ~_umask()
    else:
        mode = stat.S_IMODE(status.st_mode)
        if not stat.S_ISREG(status.st_mode):
            with open(path, "wb") as file:
                file.write(content)
            return
    try:
        descriptor, temporary = tempfile.mkstemp(
            dir=os.path.dirname(path), prefix=b".", suffix=b".switchml-tmp"
        )
    except OSError as error:
        error.filename = path
        raise
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _umask() -> int:
    """The umask can be read only by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
