"""A build at work: its request and its locked work directory."""

from __future__ import annotations

import contextlib
import functools
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from patchgen.core.wheel import place as places
from patchgen.core.wheel.journal import Journal
from patchgen.core.wheel.place import Place
from patchgen.core.wheel.request import BuildRequest
from patchgen.errors import FileError, file_errors
from patchgen.system import lock as locks
from patchgen.system import paths


@dataclass(frozen=True)
class Session:
    """The request and its work directory, for stages."""

    request: BuildRequest
    allow: Callable[[Session, str], None]
    """Called before a stage, by its name, makes something. Raises where it may not."""
    guard: int | None = None
    """Descriptor of the lock that programs inherit; None where nothing is made."""

    def __post_init__(self) -> None:
        """Reads the journal, so that a work directory that is none is refused at once."""
        _ = self.journal

    @functools.cached_property
    def place(self) -> Place:
        """The work directory as programs see it."""
        return places.find(self.request.work)

    @functools.cached_property
    def journal(self) -> Journal:
        """The journal of the work directory."""
        return Journal(self.request.work)

    def begin(self, stage: str) -> None:
        """Begins a stage, which has something to make."""
        self.allow(self, stage)


@contextlib.contextmanager
def start(request: BuildRequest, allow: Callable[[Session, str], None]) -> Iterator[Session]:
    """Locks the work directory for this run, also against what a killed run left at work.

    Raises:
        TreeError: another run is at work there.
        FileError: the file system refused.
    """
    with file_errors():
        _make_directory(request.logs, "--work")
        _make_directory(request.output, "--builddir")
        alone = locks.held(paths.from_native(request.work))
        with alone, locks.inherited(request.logs, "the compiler") as guard:
            yield Session(request, allow, guard)


def _make_directory(directory: str, option: str) -> None:
    """Makes a directory that can be written, now rather than after an hour."""
    try:
        os.makedirs(directory, exist_ok=True)
        tempfile.TemporaryFile(dir=directory).close()
    except OSError as error:
        raise FileError(
            f"{directory}: {error.strerror}; give another directory with {option}"
        ) from error
