"""Reads what others wrote: files of limited size, and JSON."""

from __future__ import annotations

import json
import os
import stat
from typing import IO, Any

from patchgen.errors import FileError, file_errors
from patchgen.system import paths

LONGEST = 1 << 24
"""Bytes of the longest file, far more than a patch, a pin or a source has."""


def read_file(path: str | bytes, longest: int = LONGEST) -> bytes:
    """Read a regular file.

    Raises:
        FileError: it cannot be read, is no regular file, or is longer than so many bytes.
    """
    shown = paths.describe(os.fsdecode(path))
    with file_errors():
        try:
            with open(path, "rb", opener=_open_without_waiting) as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise FileError(f"{shown}: is not a regular file")
                return read_stream(file, shown, longest)
        except PermissionError as error:
            reachable = os.access(os.path.dirname(path) or os.curdir, os.X_OK, effective_ids=True)
            advice = "chmod u+r" if reachable else "chmod u+rx its directories"
            raise FileError(f"{shown}: {error.strerror}; {advice}") from error


def read_stream(stream: IO[bytes], name: str, longest: int = LONGEST) -> bytes:
    """Read a stream to its end; `name` is for messages.

    Raises:
        FileError: there are more than so many bytes.
        OSError: it cannot be read.
    """
    content = stream.read(longest + 1)
    if len(content) > longest:
        raise FileError(f"{name}: is longer than {longest >> 20} MiB")
    return content


def parse_json(text: str | bytes) -> Any:  # noqa: ANN401  # any JSON
    """Parse JSON. Raises ValueError where that fails, also where it is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _open_without_waiting(path: str, flags: int) -> int:
    """Open a file; a pipe that nobody writes to would be waited for."""
    return os.open(path, flags | os.O_NONBLOCK)
