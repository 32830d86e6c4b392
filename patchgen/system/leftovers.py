"""Directories that are removed at the end, or by a later run if their owner was killed.

The owner of a directory holds a lock on it. So a directory without a lock is left over, however
old. Directories of other hosts, known by their names, stay, because locks may be invisible across
hosts. So do those of a file system without working locks.
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
from collections.abc import Iterator

from patchgen.system.lock import opened, try_lock

_BOOT = "/proc/sys/kernel/random/boot_id"


@contextlib.contextmanager
def owned(purpose: str, place: str, *, hidden: bool = False) -> Iterator[str]:
    """Make a directory, removed at the end; first remove what killed processes left beside it.

    Its name in `place` has the word `purpose`, and a dot before it if it is hidden.

    Raises:
        OSError: it cannot be made.
    """
    sweep(place)
    prefix = f"{'.' * hidden}switchml-{purpose}.{name_host()}."
    while True:
        with tempfile.TemporaryDirectory(prefix=prefix, dir=place) as path, _locked(path) as ours:
            if ours is False or not os.path.isdir(path):
                continue  # another process removed it before it was locked
            yield path
            return


@functools.cache
def sweep(place: str) -> None:
    """Remove directories of this user and host whose owners were killed; once a process."""
    ours = re.compile(rf"\.?switchml-[a-z]+\.{name_host()}\.[a-z0-9_]{{8}}")
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if ours.fullmatch(entry.name) and _is_own(entry):
                with _locked(entry.path) as first, _locked(entry.path) as second:
                    if first and second is False:
                        shutil.rmtree(entry.path, ignore_errors=True)


@functools.cache
def name_host() -> str:
    """Return a name of this host since its boot, for directories that hosts share."""
    boot = ""
    with contextlib.suppress(OSError), open(_BOOT, encoding="ascii") as file:
        boot = file.read()
    return hashlib.sha256(f"{os.uname().nodename} {boot}".encode()).hexdigest()[:8]


def _is_own(entry: os.DirEntry[str]) -> bool:
    status = entry.stat(follow_symlinks=False)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


@contextlib.contextmanager
def _locked(path: str) -> Iterator[bool | None]:
    """Lock a directory for the block: True if it succeeds, False if another process has it.

    None: the file system has no locks, or the directory is gone.
    """
    with contextlib.ExitStack() as stack:
        ours = None
        with contextlib.suppress(OSError):
            ours = try_lock(stack.enter_context(opened(path, os.O_NOFOLLOW)))
        yield ours
