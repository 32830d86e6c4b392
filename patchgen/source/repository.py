"""The repositories of a tree: PyTorch's own and its submodules, as commits record them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchgen.errors import TreeError
from patchgen.source.addresses import PYTORCH, resolved
from patchgen.system import paths
from patchgen.system.git import directory_of, head

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchgen.source.places import Place, Places
    from patchgen.system.git import Git


@dataclass(frozen=True)
class Repository:
    """One repository of the tree at the commit that it must be at.

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
    """What the tree itself is called."""

    @property
    def work_tree(self) -> str:
        """Where its files are."""
        return os.path.join(self.root, self.path) if self.path else self.root

    @property
    def shown(self) -> str:
        """For people."""
        return paths.printable(paths.from_native(self.path or self.root))

    @property
    def title(self) -> str:
        """For people, with its commit."""
        return f"{self.path or self.called} {self.commit[:12]}"

    def inside(self, name: str) -> str:
        """A path in its git directory."""
        return os.path.join(self.git_dir, name)

    @property
    def found(self) -> str | None:
        """The commit that is checked out; None before the first."""
        at = head(paths.from_native(self.work_tree))
        return at.commit if at else None

    def places(self, places: Places) -> Iterator[Place]:
        """Where to look for it."""
        return places.of(self.url, self.path, self.names)

    def mirrors_without(self, places: Places) -> Iterator[str]:
        """The mirrors that have nothing of its name, in words."""
        return places.without(self.url, self.path)


def root(directory: str, commit: str) -> Repository:
    """PyTorch's own, in a directory."""
    git_dir = directory_of(directory) or os.path.join(directory, ".git")
    return Repository(directory, "", (), git_dir, commit, PYTORCH)


def submodules(git: Git, parent: Repository, git_dir: str | None = None) -> list[Repository]:
    """The submodules of the parent's commit.

    Args:
        git: that asks.
        parent: at its commit.
        git_dir: that has the commit, where it is not the parent's own.

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
                one.commit, resolved(one.url, parent.url),
            )
        )  # fmt: skip
    return found
