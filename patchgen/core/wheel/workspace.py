"""A running build: its request and its locked work directory."""

from __future__ import annotations

import contextlib
import functools
import os
import tempfile
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import TypeVar

from patchgen.core.wheel import sandbox as sandboxes
from patchgen.core.wheel.journal import Journal
from patchgen.core.wheel.request import BuildRequest
from patchgen.core.wheel.sandbox import Sandbox
from patchgen.errors import FileError, file_errors
from patchgen.system import lock as locks
from patchgen.system import paths

T = TypeVar("T")
Making = Generator[str, None, T]
"""Run of stages, which yields the name of each that has something to make, and their result."""


@dataclass(frozen=True)
class Workspace:
    """Request and work directory of a build, for its stages."""

    request: BuildRequest
    guard: int | None = None
    """Descriptor of the lock that programs inherit; None in a plan."""

    def __post_init__(self) -> None:
        _ = self.journal

    @functools.cached_property
    def sandbox(self) -> Sandbox:
        """The work directory, under the path that programs see."""
        return sandboxes.find(self.request.work)

    @functools.cached_property
    def journal(self) -> Journal:
        """Journal in the work directory."""
        return Journal(self.request.work)


@contextlib.contextmanager
def start(request: BuildRequest) -> Iterator[Workspace]:
    """Lock the work directory, also against programs that a killed build left running.

    Raises:
        TreeError: another build uses the directory.
        FileError: the file system refused.
    """
    with file_errors():
        _make_directory(request.logs, "--work")
        _make_directory(request.output, "--builddir")
        alone = locks.held(paths.from_native(request.work))
        with alone, locks.inherited(request.logs, "the compiler") as guard:
            yield Workspace(request, guard)


def _make_directory(directory: str, option: str) -> None:
    """Make a writable directory; this fails now rather than after an hour."""
    try:
        os.makedirs(directory, exist_ok=True)
        tempfile.TemporaryFile(dir=directory).close()
    except OSError as error:
        raise FileError(
            f"{directory}: {error.strerror}; give another directory with {option}"
        ) from error
