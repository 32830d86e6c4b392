"""The repositories of a tree: PyTorch's own and its submodules, as commits record them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchgen.core.source.addresses import PYTORCH, resolve
from patchgen.errors import TreeError
from patchgen.system import paths
from patchgen.system.git import directory_of
from patchgen.system.git import head as read_head

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchgen.core.source.places import Places
    from patchgen.system.git import Git


@dataclass(frozen=True)
class Repository:
    """A repository of the tree, and the commit that it must be at.

    `path` is relative to the tree, empty for the tree itself. `names` are those of the submodule
    and the ones that it is nested in. Paths are as `os` takes them.
    """

    root: str
    path: str
    names: tuple[str, ...]
    git_dir: str
    commit: str
    url: str
    called: str = "PyTorch"
    """Name of the tree itself."""

    @property
    def work_tree(self) -> str:
        """Directory of its files."""
        return os.path.join(self.root, self.path) if self.path else self.root

    @property
    def printable(self) -> str:
        """Path, for messages."""
        return paths.printable(paths.from_native(self.path or self.root))

    @property
    def title(self) -> str:
        """Name and commit, for messages."""
        return f"{self.path or self.called} {self.commit[:12]}"

    def inside(self, name: str) -> str:
        """A path in its git directory."""
        return os.path.join(self.git_dir, name)

    @property
    def head(self) -> str | None:
        """The commit that is checked out; None before the first."""
        at = read_head(paths.from_native(self.work_tree))
        return at.commit if at else None

    def find_places(self, places: Places) -> Iterator[str]:
        """Finds the places that it may be fetched from."""
        return places.find(self.url, self.path, self.names)

    def list_lacking_mirrors(self, places: Places) -> Iterator[str]:
        """Lists the mirrors that have nothing of its name, in words."""
        return places.list_lacking(self.url, self.path)


def root(directory: str, commit: str) -> Repository:
    """Repository of PyTorch itself in a directory."""
    git_dir = directory_of(directory) or os.path.join(directory, ".git")
    return Repository(directory, "", (), git_dir, commit, PYTORCH)


def submodules(git: Git, parent: Repository, git_dir: str | None = None) -> list[Repository]:
    """The submodules of the parent's commit.

    Args:
        git: runs git.
        parent: the repository, at its commit.
        git_dir: a directory that has the commit, where it is not the parent's own.

    Raises:
        TreeError: one has no name or no address.
    """
    found = []
    for one in git.submodules(parent.commit, git_dir or parent.git_dir):
        if not one.url or ".." in one.name.split("/"):
            where = os.path.join(parent.path, ".gitmodules")
            raise TreeError(f"{where}: says no name and address for {one.path}")
        work_tree = os.path.join(parent.work_tree, one.path)
        own = directory_of(work_tree) or parent.inside(f"modules/{one.name}")
        found.append(
            Repository(
                parent.root, os.path.join(parent.path, one.path), (*parent.names, one.name), own,
                one.commit, resolve(one.url, parent.url),
            )
        )  # fmt: skip
    return found
