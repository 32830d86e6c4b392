"""Directories that are removed at their end, or by a later run where theirs was killed.

Who made one holds a lock on it as long as he lives. So one without an owner is left over, whatever
its age; where a file system has no locks, none is taken for that.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import re
import shutil
import stat
import tempfile
from enum import Enum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_OURS = re.compile(r"\.?switchml-[a-z]+\.[a-z0-9_]{8}")


class _Lock(Enum):
    """A lock that was asked for."""

    OURS = auto()
    ANOTHERS = auto()
    NONE = auto()
    """The file system has no locks, or the directory is gone."""


@contextlib.contextmanager
def owned(purpose: str, place: str, *, hidden: bool = False) -> Iterator[str]:
    """A new directory, removed at the end. The first of a process removes those left over there.

    Args:
        purpose: a word of its name.
        place: the directory that it is made in.
        hidden: its name begins with a dot.

    Raises:
        OSError: it cannot be made.
    """
    sweep(place)
    prefix = f"{'.' * hidden}switchml-{purpose}."
    while True:
        with tempfile.TemporaryDirectory(prefix=prefix, dir=place) as path, _locked(path) as lock:
            if lock is _Lock.ANOTHERS or not os.path.isdir(path):
                continue  # another run has taken it for one that is left over
            yield path
            return


@functools.cache
def sweep(place: str) -> None:
    """Removes the directories of this user in a place whose owners were killed."""
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if _OURS.fullmatch(entry.name) and _is_own(entry):
                with _locked(entry.path) as lock:
                    if lock is _Lock.OURS:
                        shutil.rmtree(entry.path, ignore_errors=True)


def _is_own(entry: os.DirEntry[str]) -> bool:
    status = entry.stat(follow_symlinks=False)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


@contextlib.contextmanager
def _locked(path: str) -> Iterator[_Lock]:
    """The lock of a directory, for the block; nobody waits for it."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.ExitStack() as stack:
        lock = _Lock.NONE
        with contextlib.suppress(OSError):
            descriptor = os.open(path, flags)
            stack.callback(os.close, descriptor)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                lock = _Lock.OURS
            except BlockingIOError:
                lock = _Lock.ANOTHERS
        yield lock
