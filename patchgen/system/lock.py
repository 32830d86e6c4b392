"""Locks of directories that only one process at a time may change."""

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
_PATIENCE = 60  # seconds for a killed run's programs to notice that their pipes are closed
_STARTING = 2  # seconds for a program that a killed run was starting to close what it inherited


class BusyError(TreeError):
    """Another run uses the directory."""


@contextlib.contextmanager
def opened(directory: str | bytes, flags: int = 0) -> Iterator[int]:
    """Open a directory for `try_lock`. Closing it ends the lock."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    """Take a lock; return False if another process has it.

    Raises:
        OSError: the file system has no locks.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _take(descriptor: int, seconds: float) -> bool:
    """Take a lock, at most so many seconds later; return False if another process still has it."""
    deadline = time.monotonic() + seconds
    while not try_lock(descriptor):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@contextlib.contextmanager
def held(root: str) -> Iterator[None]:
    """Hold the lock of a directory, at most until the end of the process.

    Raises:
        BusyError: another process holds it.
        FileError: the file system has no locks.
    """
    shown = paths.printable(root)
    with opened(paths.encode(root)) as descriptor:
        try:
            alone = _take(descriptor, _STARTING)
        except OSError as error:
            raise FileError(f"{shown}: cannot be locked: {error.strerror}") from error
        if not alone:
            raise BusyError(f"{shown}: another run is at work here; wait for its end")
        yield


@contextlib.contextmanager
def inherited(directory: str, whose: str) -> Iterator[int]:
    """Yield a locked descriptor for programs to inherit, so that they hold the lock too.

    A program that outlives this process keeps the directory locked. `whose` names the programs in
    messages, such as "the git".

    Raises:
        BusyError: programs of a killed run do not end.
    """
    with opened(directory) as descriptor:
        if not try_lock(descriptor):
            _LOGGER.info("waiting for %s of a run that was killed", whose)
            if not _take(descriptor, _PATIENCE):
                raise BusyError(
                    f"{directory}: {whose} of a run that was killed is still at work; end it"
                )
        yield descriptor
        fcntl.flock(descriptor, fcntl.LOCK_UN)
