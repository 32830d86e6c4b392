"""Lock of a directory, which one run at a time may change."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import time
from collections.abc import Iterator

from patchgen.errors import FileError, TreeError
from patchgen.system import paths

_LOGGER = logging.getLogger(__name__)
_PATIENCE = 60  # seconds for the programs of a killed run to see that nobody reads from them


@contextlib.contextmanager
def opened(directory: str | bytes, flags: int = 0) -> Iterator[int]:
    """The descriptor of a directory, for `try_lock`. The lock ends with it."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    """Takes a lock, unless another process has it: then it returns False.

    Raises:
        OSError: the file system has no locks.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def held(root: str) -> Iterator[None]:
    """Holds the lock of a directory. It is on the directory itself and ends with the process.

    Raises:
        TreeError: another run holds it.
        FileError: the file system has no locks.
    """
    with opened(paths.encode(root)) as descriptor:
        try:
            alone = try_lock(descriptor)
        except OSError as error:
            raise FileError(
                f"{paths.printable(root)}: cannot be locked: {error.strerror}"
            ) from error
        if not alone:
            raise TreeError(
                f"{paths.printable(root)}: another run is at work here; wait for its end"
            )
        yield


@contextlib.contextmanager
def inherited(directory: str, whose: str) -> Iterator[int]:
    """A lock for programs of ours to inherit, so that it outlives us if they do.

    Args:
        directory: as `os` takes it.
        whose: for messages, as "the git".

    Yields:
        The descriptor to pass on.

    Raises:
        TreeError: the programs of a run that was killed do not end.
    """
    with opened(directory) as descriptor:
        deadline = time.monotonic() + _PATIENCE
        told = False
        while not try_lock(descriptor):
            if time.monotonic() > deadline:
                raise TreeError(
                    f"{directory}: {whose} of a run that was killed is still at work; end it"
                )
            if not told:
                _LOGGER.info("waiting for %s of a run that was killed", whose)
                told = True
            time.sleep(0.1)
        yield descriptor
        fcntl.flock(descriptor, fcntl.LOCK_UN)
