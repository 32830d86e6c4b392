"""File systems of little room."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


def fill(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no file reach the disk any more."""

    def refuse(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", refuse)


@contextlib.contextmanager
def small(place: Path, size: str) -> Iterator[Callable[[str], None]]:
    """Mount a file system of `size`, such as 96k; yield a function that resizes it."""
    place.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    done = subprocess.run(mount, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"needs the right to mount a small tmpfs (root): {done.stderr.strip()}")

    def resize(now: str) -> None:
        subprocess.run(["mount", "-o", f"remount,size={now}", str(place)], check=True)

    try:
        yield resize
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)
