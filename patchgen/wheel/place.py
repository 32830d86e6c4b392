"""Work directory of a build, locked for one run."""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchgen.errors import FileError, file_errors
from patchgen.system import lock, paths
from patchgen.wheel.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchgen.wheel.request import Request


@dataclass(frozen=True)
class Place:
    """The request, the journal of its directory, and the lock that its programs inherit."""

    request: Request
    journal: Journal
    guard: int
    """A descriptor."""


@contextlib.contextmanager
def taken(request: Request) -> Iterator[Place]:
    """Locks the work directory for this run, also against what a killed one left running.

    Raises:
        TreeError: another run is at work there.
        FileError: the file system refused.
    """
    with file_errors():
        _make(request.logs, "--work")
        _make(request.output, "--builddir")
        alone = lock.held(paths.from_native(request.work))
        with alone, lock.inherited(request.logs, "the compiler") as guard:
            yield Place(request, Journal(request.work), guard)


def _make(directory: str, option: str) -> None:
    """A directory to write into, rather now than after an hour."""
    try:
        os.makedirs(directory, exist_ok=True)
        tempfile.TemporaryFile(dir=directory).close()
    except OSError as error:
        raise FileError(
            f"{directory}: {error.strerror}; give another directory with {option}"
        ) from error
