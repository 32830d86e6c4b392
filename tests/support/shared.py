"""Things made once for all processes of a test run."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return a read-only directory, filled by the first process that asks for it.

    Args:
        factory: of the session.
        name: of the directory, the same in all processes.
        make: fills the directory, which is there and empty. Where it raises, the next one tries.
    """
    base = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    directory, complete = base / "shared" / name, base / "shared" / f"{name}.complete"
    directory.parent.mkdir(exist_ok=True)
    with (directory.parent / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists():
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
            make(directory)
            complete.touch()
    return directory
