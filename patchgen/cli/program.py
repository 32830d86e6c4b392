"""The program as a whole: its exit codes, and errors as one or two lines."""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING, Any

from patchgen.cli.console import Group, say, unwritable
from patchgen.errors import EXIT_CODES, FileError, InterruptedRun, OptionsError, PatchgenError

if TYPE_CHECKING:
    import click

EPILOG = "\b\nExit codes:\n" + "\n".join(
    f"  {code:>3}  {meaning}" for code, meaning in EXIT_CODES.items()
)

_UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF}
_GONE = "the current directory no longer exists; change to another"


class Main(Group):
    """Turns what a user can mend into one or two lines and an exit code."""

    def main(self, *args: Any, **given: Any) -> Any:  # as in click
        """Runs the program and ends it."""
        os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")  # GitPython serves without a git
        try:
            return super().main(*args, **given)
        except OSError as error:
            if error.filename is not None or error.errno not in _UNWRITABLE:
                raise
            say(f"error: {unwritable(error)}")
            sys.exit(FileError.exit_code)

    def invoke(self, ctx: click.Context) -> Any:  # as in click
        """Runs a command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            error: PatchgenError = InterruptedRun("interrupted")
        except (PatchgenError, FileNotFoundError) as caught:
            if _without_directory(caught):
                error = OptionsError(_GONE)
            elif isinstance(caught, PatchgenError):
                error = caught
            else:
                raise
        say(str(error) if isinstance(error, InterruptedRun) else f"error: {error}")
        return ctx.exit(error.exit_code)


def _without_directory(error: BaseException | None) -> bool:
    """Tells whether an error is that the current directory was removed."""
    if isinstance(error, FileError):
        error = error.__cause__
    if not isinstance(error, FileNotFoundError) or error.filename is not None:
        return False
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False
