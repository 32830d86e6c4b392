"""Changes several files together: all of them or, after any exception, none."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from patchgen.core.patch import obstacles
from patchgen.errors import FileError, TreeError
from patchgen.system import files, paths

READ_ONLY = "cannot be written; chmod u+w, unless its file system is read-only"


@dataclass(frozen=True)
class Change:
    """Content of a file before and after a change; None where there is no file."""

    path: str
    before: bytes | None
    after: bytes | None


def perform(root: str, changes: Sequence[Change], suffix: str) -> None:
    """Make the changes in order, each atomically, through files with the given suffix.

    Raises:
        TreeError: a file is not `before`, or, once written, not `after`; or a symbolic link is on
            the way to it.
        FileError: a file is read-only.
        OSError: the file system refused.
    """
    for change in changes:
        _check_writable(root, change)
    undo: list[tuple[Change, os.stat_result | None]] = []
    try:
        for change in changes:
            if change.after is not None:
                temporary = _name(root, change.path + suffix)
                os.makedirs(os.path.dirname(temporary), exist_ok=True)
                _prepare(temporary, change.after, _status(root, change))
        for change in changes:
            _expect(root, change.path, change.before, "changed by somebody else during this run")
            undo.append((change, _status(root, change)))
            _make(root, change, suffix)
        for change in changes:
            _expect(root, change.path, change.after, "not as it was written; is the disk in order?")
    except BaseException:
        for change, status in reversed(undo):
            with contextlib.suppress(TreeError):  # what a link leads to is not the tree's
                _restore(root, change, status, suffix)
        raise
    finally:
        clean(root, [change.path + suffix for change in changes])
        prune(root, [change.path for change in changes])


def clean(root: str, leftovers: Sequence[str]) -> None:
    """Remove temporary files, if they exist."""
    for path in leftovers:
        with contextlib.suppress(FileNotFoundError, TreeError):
            os.unlink(_name(root, path))


def prune(root: str, removed: Iterable[str]) -> None:
    """Remove the directories of these files where they are empty, as git does."""
    for path in removed:
        directory = os.path.dirname(path)
        with contextlib.suppress(OSError, FileError, TreeError):
            while directory:
                os.rmdir(_name(root, directory))
                directory = os.path.dirname(directory)


def _name(root: str, path: str) -> bytes:
    """Return where a path of a tree is, for the next access to it alone.

    Raises:
        TreeError: a symbolic link or a file is on the way.
    """
    obstacle = obstacles.find(root, path)
    if obstacle is not None:
        raise TreeError(f"{obstacle.path}: {obstacle.detail}")
    return paths.encode(os.path.join(root, path))


def _content(name: bytes) -> bytes | None:
    try:
        with open(name, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _status(root: str, change: Change) -> os.stat_result | None:
    return None if change.before is None else os.lstat(_name(root, change.path))


def _expect(root: str, path: str, content: bytes | None, otherwise: str) -> None:
    if _content(_name(root, path)) != content:
        raise TreeError(f"{path}: {otherwise}")


def _make(root: str, change: Change, suffix: str) -> None:
    name = _name(root, change.path)
    if change.after is None:
        os.unlink(name)
    else:
        os.replace(_name(root, change.path + suffix), name)


def _check_writable(root: str, change: Change) -> None:
    """Refuse a read-only file, although replacing it needs only its directory."""
    name = _name(root, change.path)
    directory = os.path.dirname(name)
    while change.before is None and not os.path.lexists(directory):
        directory = os.path.dirname(directory)
    for path in (directory, name) if change.before is not None else (directory,):
        if not os.stat(path).st_mode & stat.S_IWUSR or not os.access(path, os.W_OK):
            shown = paths.printable(paths.decode(path))
            raise FileError(f"{shown}: {READ_ONLY}")


def _prepare(temporary: bytes, content: bytes, like: os.stat_result | None) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)
    files.write_new(temporary, content)
    if like is not None:
        with contextlib.suppress(PermissionError):
            os.chown(temporary, like.st_uid, like.st_gid)
        os.chmod(temporary, stat.S_IMODE(like.st_mode))


def _restore(root: str, change: Change, status: os.stat_result | None, suffix: str) -> None:
    """Undo a change, whether it was made or not."""
    name = _name(root, change.path)
    if change.before is None or status is None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
    elif _content(name) != change.before:
        temporary = _name(root, change.path + suffix)
        _prepare(temporary, change.before, status)
        os.utime(temporary, ns=(status.st_atime_ns, status.st_mtime_ns))
        os.replace(temporary, name)
