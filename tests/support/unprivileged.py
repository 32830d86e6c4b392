"""Permissions, which root does not see."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_NOBODY = 65534


@contextlib.contextmanager
def directory() -> Iterator[Path]:
    """A directory that other users reach, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as made:
        os.chmod(made, 0o755)  # noqa: S103  # that is what it is for
        yield Path(made)


@contextlib.contextmanager
def user() -> Iterator[None]:
    """Runs the block as another user than root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(_NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
