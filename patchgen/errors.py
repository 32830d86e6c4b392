"""Errors in families, each with an exit code."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterator


class PatchgenError(Exception):
    """An error whose message is one or two lines: what failed, where, and what to do next."""

    exit_code: ClassVar[int] = 1
    meaning: ClassVar[str] = "a fault of switchml-patch itself"

    def __init__(self, message: str = "", *, reason: str = "") -> None:
        """Keeps the message, and the reason in a few words where it is only a part of that."""
        super().__init__(message)
        self.reason = reason or message


class OptionsError(PatchgenError):
    """The user asked for something that cannot be."""

    exit_code = 2
    meaning = "refused options, wrong usage, unknown pin"


class TreeError(PatchgenError):
    """The tree is not in the state that the command needs."""

    exit_code = 3
    meaning = "the tree is not what it must be: wrong commit, foreign edit, partly patched, locked"


class ToolError(PatchgenError):
    """An external program is missing or failed."""

    exit_code = 4
    meaning = "an external program is missing or failed"


class FileError(PatchgenError):
    """The file system refused."""

    exit_code = 5
    meaning = "the file system refused: permission, read-only, no space; or output was lost"


class CheckError(PatchgenError):
    """Something that was to be verified does not hold."""

    exit_code = 6
    meaning = "a check does not hold"


class InterruptedRun(PatchgenError):  # noqa: N818  # not an error of anybody
    """Ctrl-C."""

    exit_code = 130
    meaning = "interrupted"


_FAMILIES = (
    PatchgenError, OptionsError, TreeError, ToolError, FileError, CheckError, InterruptedRun,
)  # fmt: skip
_SIGNALS = {129: "ended by SIGHUP", 143: "ended by SIGTERM"}
EXIT_CODES: dict[int, str] = dict(
    sorted({0: "success", **{one.exit_code: one.meaning for one in _FAMILIES}, **_SIGNALS}.items())
)
"""Meanings by code, as a shell shows it. Told to end by a signal, the command cleans up and then
ends by that very signal, which a shell shows as 128 and its number."""


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextlib.contextmanager
def file_errors() -> Iterator[None]:
    """Turns an OSError into a FileError that names the file."""
    try:
        yield
    except OSError as error:
        # Of a copy both files are known, and it is the second that has no room.
        path = error.filename2 if error.errno in _NO_ROOM and error.filename2 else error.filename
        name = os.fsdecode(path) if isinstance(path, (str, bytes)) else ""
        reason = error.strerror or str(error)
        raise FileError(f"{name}: {reason}" if name else reason) from error
