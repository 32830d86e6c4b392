"""A file in each git directory that is not finished: the commit that is wanted there."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from patchgen.system import files

if TYPE_CHECKING:
    from patchgen.source.repository import Repository

_NAME = "switchml-source"


def read(repository: Repository) -> str | None:
    """The commit that is wanted; None where there is no mark."""
    try:
        with open(repository.inside(_NAME), encoding="ascii") as file:
            return file.read().strip()
    except FileNotFoundError:
        return None


def write(repository: Repository) -> None:
    """Marks a git directory."""
    text = f"{repository.commit}\n"
    files.replace(os.fsencode(repository.inside(_NAME)), text.encode("ascii"))


def remove(repository: Repository) -> None:
    """The git directory is finished."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(repository.inside(_NAME))
