"""Site of a build: its paths and its environment variables."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchgen.errors import ToolError

_OFF = {"0", "OFF", "NO", "FALSE", "N"}  # as PyTorch's setup.py reads a variable


@dataclass(frozen=True)
class Site:
    """Site of a build. Paths are as `os` takes them, absolute or relative to `cwd`."""

    work: str
    """Directory for source, environment and objects; need not exist."""
    python: str | None
    """An interpreter to build with, instead of a conda environment."""
    lock: str | None
    """A conda-lock.yml."""
    environ: Mapping[str, str]
    """The process environment."""
    cwd: str
    accepted: frozenset[str] = frozenset()
    """Keys of ACCEPTABLE: what the user builds in spite of."""
    environment: str | None = None
    """The environment file that a lock is made from where there is none yet."""

    def path(self, path: str) -> str:
        """An absolute path."""
        return os.path.normpath(os.path.join(self.cwd, path))

    @property
    def prefix(self) -> str:
        """The environment that a build makes from the lock, and uses."""
        return os.path.join(self.path(self.work), "env")

    def switch(self, name: str) -> bool | None:
        """A variable that is on or off, or None where nothing is said."""
        value = self.environ.get(name)
        return value.upper() not in _OFF if value else None


def which(name: str, environ: Mapping[str, str]) -> str | None:
    """A program of the PATH of `environ`."""
    return shutil.which(name, path=environ.get("PATH", os.defpath))


def lines(error: ToolError) -> tuple[str, ...]:
    """Command that failed, and the line of its output that says why."""
    said = [line.strip() for line in str(error).splitlines() if line.strip()]
    why = said[-1:] if any(line.startswith("Traceback") for line in said) else said[1:2]
    return (said[0], *why)


def reason(error: OSError) -> str:
    """Reason of the operating system, without the path."""
    return error.strerror or str(error)
