"""Request for a check."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from patchgen.core.patch.limits import Limits
from patchgen.core.patch.pins import Pin
from patchgen.options import Options

_OFF = {"0", "OFF", "NO", "FALSE", "N"}  # as PyTorch's setup.py reads a variable


@dataclass(frozen=True)
class CheckRequest:
    """Requested build. Paths are as `os` takes them, absolute or relative to `cwd`."""

    options: Options
    pin: Pin
    work: str
    """Directory for source, environment and objects; may be missing."""
    python: str | None
    """Interpreter to build with, instead of a conda environment."""
    lock: str | None
    """Path of conda-lock.yml."""
    environ: Mapping[str, str]
    """The process environment."""
    cwd: str
    accepted: frozenset[str] = frozenset()
    """Keys of ACCEPTABLE that the user accepted."""
    environment: str | None = None
    """Environment file from which a missing lock is made."""

    def path(self, path: str) -> str:
        """Return an absolute path."""
        return os.path.normpath(os.path.join(self.cwd, path))

    @property
    def limits(self) -> Limits:
        """Versions with which the release builds."""
        return Limits(f"PyTorch {self.pin.version}", self.pin.recipe.limits)

    @property
    def prefix(self) -> str:
        """Environment that a build makes from the lock."""
        return os.path.join(self.path(self.work), "env")

    def switch(self, name: str) -> bool | None:
        """Return whether a variable is on; None where it is not set."""
        value = self.environ.get(name)
        return value.upper() not in _OFF if value else None
