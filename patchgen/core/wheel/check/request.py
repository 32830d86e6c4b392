"""Request for a check: the build that is asked for."""

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
    """Build that is asked for. Paths are as `os` takes them, absolute or relative to `cwd`."""

    options: Options
    pin: Pin
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
    def limits(self) -> Limits:
        """Versions that the release builds with."""
        return Limits(f"PyTorch {self.pin.version}", self.pin.recipe.limits)

    @property
    def prefix(self) -> str:
        """The environment that a build makes from the lock, and uses."""
        return os.path.join(self.path(self.work), "env")

    def switch(self, name: str) -> bool | None:
        """A variable that is on or off, or None where nothing is said."""
        value = self.environ.get(name)
        return value.upper() not in _OFF if value else None
