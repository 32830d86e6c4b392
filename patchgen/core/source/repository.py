"""Repositories of a tree: PyTorch and its submodules, as commits record them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from patchgen.core.source.addresses import PYTORCH, resolve
from patchgen.core.source.remotes import Remotes
from patchgen.errors import TreeError
from patchgen.system import paths
from patchgen.system.git import Git, directory_of
from patchgen.system.git import head as read_head


@dataclass(frozen=True)
class Repository:
    """A repository of the tree, and the commit that it must be at.

    `path` is relative to the tree, and empty for PyTorch itself. `names` are those of the
    submodules from the tree down to this one. Paths are as `os` takes them.
    """

    root: str
    path: str
    names: tuple[str, ...]
    git_dir: str
    commit: str
    url: str
    called: str = "PyTorch"
    """Title of the tree itself."""

    @property
    def work_tree(self) -> str:
        """Directory of its files."""
        return os.path.join(self.root, self.path) if self.path else self.root

    @property
    def printable(self) -> str:
        """Path for messages."""
        return paths.printable(paths.from_native(self.path or self.root))

    @property
    def title(self) -> str:
        """Name and commit for messages."""
        return f"{self.path or self.called} {self.commit[:12]}"

    def inside(self, name: str) -> str:
        """Return a path in its git directory."""
        return os.path.join(self.git_dir, name)

    @property
    def head(self) -> str | None:
        """Commit that is checked out; None before the first."""
        at = read_head(paths.from_native(self.work_tree))
        return at.commit if at else None

    def list_remotes(self, remotes: Remotes) -> Iterator[str]:
        """Yield the remotes to fetch it from, in order."""
        return remotes.find(self.url, self.path, self.names)


def root(directory: str, commit: str) -> Repository:
    """Return PyTorch's own repository in a directory."""
    git_dir = directory_of(directory) or os.path.join(directory, ".git")
    return Repository(directory, "", (), git_dir, commit, PYTORCH)


def submodules(git: Git, parent: Repository, git_dir: str | None = None) -> list[Repository]:
    """Return the submodules of the parent's commit, which another git directory may have.

    Raises:
        TreeError: a submodule has no URL or an unsafe name.
    """
    found = []
    for one in git.submodules(parent.commit, git_dir or parent.git_dir):
        if not one.url or ".." in one.name.split("/"):
            where = os.path.join(parent.path, ".gitmodules")
            raise TreeError(f"{where}: has no name and URL for {one.path}")
        work_tree = os.path.join(parent.work_tree, one.path)
        own = directory_of(work_tree) or parent.inside(f"modules/{one.name}")
        found.append(
            Repository(
                parent.root, os.path.join(parent.path, one.path), (*parent.names, one.name), own,
                one.commit, resolve(one.url, parent.url),
            )
        )  # fmt: skip
    return found
