"""A file in the git directory of a tree that is not finished: the commit that is wanted there."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from patchgen.system import files

if TYPE_CHECKING:
    from patchgen.core.source.repository import Repository

_NAME = "switchml-source"


def read(root: Repository) -> str | None:
    """The commit that is wanted; None where there is no mark."""
    try:
        with open(root.inside(_NAME), encoding="ascii") as file:
            return file.read().strip()
    except FileNotFoundError:
        return None


def unwritten(root: Repository) -> list[str]:
    """The files of runs that were killed while they wrote the mark."""
    names = os.listdir(root.git_dir)
    return [root.inside(name) for name in names if name.endswith(files.TEMPORARY)]


def write(root: Repository) -> None:
    """Marks a tree; its git directory is there."""
    for path in unwritten(root):
        os.unlink(path)
    text = f"{root.commit}\n"
    files.replace(os.fsencode(root.inside(_NAME)), text.encode("ascii"))


def remove(root: Repository) -> None:
    """The tree is finished."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(root.inside(_NAME))
