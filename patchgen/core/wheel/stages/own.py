"""Directories that a build made itself, and that have lost files since."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from patchgen.core.source.survey import UnsoundError
from patchgen.errors import TreeError
from patchgen.system import paths
from patchgen.system.git import GitError
from patchgen.system.lock import BusyError

_SHOWN = 5  # problems in a message


@contextlib.contextmanager
def made_again(directory: str) -> Iterator[None]:
    """Say what to remove where a directory of the build is not as a build leaves it.

    Raises:
        TreeError: something in the directory is wrong, or another run uses it.
    """
    try:
        yield
    except BusyError:
        raise
    except (TreeError, GitError) as error:
        lines = str(error).splitlines()
        if isinstance(error, UnsoundError):
            lines = [*error.problems[:_SHOWN]]
            if len(error.problems) > _SHOWN:
                lines.append(f"and {len(error.problems) - _SHOWN} more")
        name = paths.describe(directory)
        lines += [
            f"{name} is made by the build, but services such as systemd-tmpfiles remove old files",
            f"if nothing in it is yours, remove it, and it is made again: rm -rf {name}",
        ]
        raise TreeError("\n".join(lines)) from error
