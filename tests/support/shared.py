"""Things made once for all processes of a test run."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.waiting import captured

CI = Path(__file__).parents[2] / "ci"


def provided(script: str, needs: str) -> Path:
    """Return the path that a script of ci/ prints, or skip the test where it cannot."""
    environ = {**os.environ, "PYTHON": sys.executable}
    done = captured([CI / script], env=environ, timeout=None)
    if done.returncode != 0:
        pytest.skip(f"ci/{script} needs {needs}: {done.stderr[-300:]}")
    return Path(done.stdout.strip())


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return a read-only directory, filled by the first process that asks for it by its name.

    Where `make`, which gets an empty directory, raises, the next process tries.
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
