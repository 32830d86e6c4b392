"""A build at work: its request, its locked work directory, and the results of its stages so far."""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from patchgen.core.wheel import place
from patchgen.core.wheel.journal import Journal
from patchgen.errors import FileError, file_errors
from patchgen.system import lock as locks
from patchgen.system import paths

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchgen.core.source import Source
    from patchgen.core.wheel.env.lockfile import Lock
    from patchgen.core.wheel.place import Place
    from patchgen.core.wheel.request import Request
    from patchgen.core.wheel.values import Environment, Objects, Patched, Verified, Wheel


@dataclass
class Session:
    """The request, and the result of each stage under the stage's name.

    A stage reads the results of those before it. A result that is not there yet has no attribute.
    """

    request: Request
    journal: Journal
    place: Place
    guard: int | None = None
    """Descriptor of the lock that programs inherit; None where nothing is made."""
    lock: Lock | None = None
    """Lock of the environment; None where the user named an interpreter."""
    source: Source = field(init=False)
    env: Environment = field(init=False)
    patch: Patched = field(init=False)
    compile: Objects = field(init=False)
    wheel: Wheel = field(init=False)
    verify: Verified = field(init=False)


@contextlib.contextmanager
def start(request: Request) -> Iterator[Session]:
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
            yield Session(request, Journal(request.work), place.find(request.work), guard)


def _make_directory(directory: str, option: str) -> None:
    """Makes a directory that can be written, now rather than after an hour."""
    try:
        os.makedirs(directory, exist_ok=True)
        tempfile.TemporaryFile(dir=directory).close()
    except OSError as error:
        raise FileError(
            f"{directory}: {error.strerror}; give another directory with {option}"
        ) from error
