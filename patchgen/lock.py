"""One run at a time may change a tree."""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

from patchgen import paths
from patchgen.errors import FileError, TreeError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def held(root: str) -> Iterator[None]:
    """Holds the lock of a tree. It is on the directory itself and ends with the process.

    Raises:
        TreeError: another run holds it.
        FileError: the file system has no locks.
    """
    descriptor = os.open(paths.encode(root), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TreeError(
                f"{paths.printable(root)}: another run is changing this tree; wait for its end"
            ) from None
        except OSError as error:
            raise FileError(
                f"{paths.printable(root)}: cannot be locked: {error.strerror}"
            ) from error
        yield
    finally:
        os.close(descriptor)
