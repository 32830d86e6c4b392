"""Modes of files, for what other users read."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def closed(top: Path) -> list[Path]:
    """Return the files and directories below a directory that other users cannot read."""
    needed = {True: 0o055, False: 0o044}
    found = [path for path in (top, *top.rglob("*")) if not path.is_symlink()]
    return [path for path in found if ~stat.S_IMODE(path.stat().st_mode) & needed[path.is_dir()]]
