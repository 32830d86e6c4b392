"""Where one run of a build works: it has the directory for itself."""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchgen.build.journal import Journal
from patchgen.errors import FileError, file_errors
from patchgen.system import lock, paths

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchgen.build.request import Request


@dataclass(frozen=True)
class Place:
    """The request, the journal of its directory, and the lock that its programs inherit."""

    request: Request
    journal: Journal
    guard: int
    """A descriptor."""


@contextlib.contextmanager
def taken(request: Request) -> Iterator[Place]:
    """The work directory for this run alone, also against what a killed one has left running.

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
