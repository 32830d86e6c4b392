"""Directories that are removed at their end, or by a later run where theirs was killed.

Who made one holds a lock on it as long as he lives. So one without an owner is left over, whatever
its age. Another host may not see that lock, so its directories, known by their names, stay; where a
file system has no locks, or has some that lock nothing, all stay.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import shutil
import stat
import tempfile
from typing import TYPE_CHECKING

from patchgen.system.lock import opened, try_lock

if TYPE_CHECKING:
    from collections.abc import Iterator

_BOOT = "/proc/sys/kernel/random/boot_id"


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
    prefix = f"{'.' * hidden}switchml-{purpose}.{name_host()}."
    while True:
        with tempfile.TemporaryDirectory(prefix=prefix, dir=place) as path, _locked(path) as ours:
            if ours is False or not os.path.isdir(path):
                continue  # another run has taken it for one that is left over
            yield path
            return


@functools.cache
def sweep(place: str) -> None:
    """Removes the directories of this user and host in a place whose owners were killed."""
    ours = re.compile(rf"\.?switchml-[a-z]+\.{name_host()}\.[a-z0-9_]{{8}}")
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if ours.fullmatch(entry.name) and _is_own(entry):
                with _locked(entry.path) as first, _locked(entry.path) as second:
                    if first and second is False:
                        shutil.rmtree(entry.path, ignore_errors=True)


@functools.cache
def name_host() -> str:
    """Name of this host since it was started, for names of directories that hosts share."""
    boot = ""
    with contextlib.suppress(OSError), open(_BOOT, encoding="ascii") as file:
        boot = file.read()
    return hashlib.sha256(f"{os.uname().nodename} {boot}".encode()).hexdigest()[:8]


def _is_own(entry: os.DirEntry[str]) -> bool:
    status = entry.stat(follow_symlinks=False)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


@contextlib.contextmanager
def _locked(path: str) -> Iterator[bool | None]:
    """The lock of a directory, for the block: True where it is ours, False where it is another's.

    None: the file system has no locks, or the directory is gone.
    """
    with contextlib.ExitStack() as stack:
        ours = None
        with contextlib.suppress(OSError):
            ours = try_lock(stack.enter_context(opened(path, os.O_NOFOLLOW)))
        yield ours
