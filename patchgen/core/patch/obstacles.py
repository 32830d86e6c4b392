"""What is on the way to a file of a tree, where there should be directories.

The patch is neither read nor written through a symbolic link, which may lead out of the tree. Git
refuses the same.
"""

from __future__ import annotations

import os
import stat
from typing import NamedTuple

from patchgen.errors import FileError, file_errors
from patchgen.system import paths


class Obstacle(NamedTuple):
    """Path in a tree at which there should be a directory, and what is wrong with it."""

    path: str
    detail: str
    is_link: bool


def find(root: str, path: str) -> Obstacle | None:
    """Return the first obstacle on the way to a file; a missing directory is none.

    Raises:
        FileError: a directory cannot be searched.
    """
    for end in (index for index, letter in enumerate(path) if letter == "/"):
        mode = find_mode(os.path.join(root, path[:end]))
        if mode is None:
            return None
        if stat.S_ISLNK(mode):
            detail = "is a symbolic link; put the directory itself there"
            return Obstacle(path[:end], detail, is_link=True)
        if not stat.S_ISDIR(mode):
            return Obstacle(path[:end], "is not a directory; move it away", is_link=False)
    return None


@file_errors()
def find_mode(path: str) -> int | None:
    """Return the type and mode of a path, or of a symbolic link itself; None if nothing is there.

    Raises:
        FileError: its directory cannot be searched.
    """
    try:
        return os.lstat(paths.encode(path)).st_mode
    except FileNotFoundError:
        return None
    except PermissionError as error:
        above = paths.printable(os.path.dirname(path))
        raise FileError(f"{above}: {error.strerror}; chmod u+rx") from error
