"""What is on the way to a file of a tree, where there should be directories.

The patch is neither read nor written through a symbolic link, which may lead out of the tree. Git
refuses the same.
"""

from __future__ import annotations

import itertools
import os
import posixpath
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
    for directory in itertools.accumulate(path.split("/")[:-1], posixpath.join):
        mode = find_mode(f"{root}/{directory}")
        if mode is None:
            return None
        if stat.S_ISLNK(mode):
            detail = "is a symbolic link; put the directory itself there"
            return Obstacle(directory, detail, is_link=True)
        if not stat.S_ISDIR(mode):
            return Obstacle(directory, "is not a directory; move it away", is_link=False)
    return None


def find_mode(path: str) -> int | None:
    """Return the type and mode of a path, or of a symbolic link itself; None if nothing is there.

    Raises:
        FileError: its directory cannot be searched.
    """
    with file_errors():
        try:
            return os.lstat(paths.encode(path)).st_mode
        except FileNotFoundError:
            return None
        except PermissionError as error:
            above = paths.printable(os.path.dirname(path))
            raise FileError(f"{above}: {error.strerror}; chmod u+rx") from error
