"""A directory for the length of a command, removed also when that is told to end."""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import TYPE_CHECKING

from patchgen.errors import file_errors
from patchgen.system import signals

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def directory(purpose: str) -> Iterator[str]:
    """A new directory under TMPDIR, removed at the end, after Ctrl-C, SIGTERM and SIGHUP.

    Args:
        purpose: a word of its name.

    Raises:
        FileError: there is no room, or the file system refused otherwise.
    """
    prefix = f"switchml-{purpose}-"
    with signals.cleaning_up(), file_errors(), tempfile.TemporaryDirectory(prefix=prefix) as path:
        yield os.path.realpath(path)
