"""Permissions, which root does not see."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NOBODY = 65534


@contextlib.contextmanager
def directory(mode: int = 0o755) -> Iterator[Path]:
    """Yield a directory that other users reach, unlike those of pytest.

    It belongs to the user of the tests, so that only its mode can keep that one from writing to it.
    """
    with tempfile.TemporaryDirectory() as made:
        os.chmod(made, mode)
        yield Path(made)


@contextlib.contextmanager
def user() -> Iterator[None]:
    """Run the block as a user other than root: nobody, or the ordinary user of the tests."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def unshare(*namespaces: str) -> list[str]:
    """Return a command that runs another in namespaces, such as --net, that its user may change."""
    mapped = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", *mapped, *namespaces]


def give(path: Path, user: int = NOBODY) -> None:
    """Give a file to another user, which only root can."""
    if os.geteuid() != 0:
        pytest.skip("only root gives files to another user")
    os.chown(path, user, user)


def identity() -> dict[str, Any]:
    """Return arguments of subprocess that run a program as another user than root."""
    return {"user": NOBODY, "group": NOBODY} if os.geteuid() == 0 else {}


def interpreter(directory: Path) -> Path:
    """Make an environment with our packages, whose interpreter other users can run.

    Ours may be in a directory of root's own.
    """
    try:
        subprocess.run([sys.executable, "-c", ""], check=True, cwd="/", **identity())
        base = sys.executable
    except (PermissionError, subprocess.CalledProcessError):
        base = "/usr/bin/python3"
    subprocess.run([base, "-m", "venv", "--without-pip", directory], check=True)
    (site,) = directory.glob("lib/python*/site-packages")
    ours = sysconfig.get_path("purelib")
    (site / "ours.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
    return directory / "bin" / "python"
