"""Families of errors, each with an exit code."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterator


class PatchgenError(Exception):
    """Error with one or two lines of message: what failed, where, and what to do next."""

    exit_code: ClassVar[int] = 1
    meaning: ClassVar[str] = "a fault of switchml-patch itself"

    def __init__(self, message: str = "", *, reason: str = "") -> None:
        """Keep the message, and its reason in a few words if that is only a part."""
        super().__init__(message)
        self.reason = reason or message


class OptionsError(PatchgenError):
    """The user asked for something impossible."""

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
    """A check failed."""

    exit_code = 6
    meaning = "a check does not hold"


class InterruptedRun(PatchgenError):  # noqa: N818  # no error, but an end
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
"""Meanings by exit code, as a shell shows it.

A command that gets a signal cleans up, then ends by this signal: 128 and its number in a shell. As
the first process of a container it exits with that code.
"""


def printable(path: bytes) -> str:
    r"""Return a path for messages, with invalid and control characters as \x escapes."""
    shown = path.decode("utf-8", "backslashreplace")
    if shown.isprintable():
        return shown
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextlib.contextmanager
def file_errors() -> Iterator[None]:
    """Turn an OSError into a FileError that names the file."""
    try:
        yield
    except OSError as error:
        # An error of copying names both files; without space the second one counts.
        path = error.filename2 if error.errno in _NO_ROOM and error.filename2 else error.filename
        name = printable(os.fsencode(path)) if isinstance(path, (str, bytes)) else ""
        reason = error.strerror or str(error)
        raise FileError(f"{name}: {reason}" if name else reason) from error
