"""The repositories of a tree: PyTorch's own and its submodules, as commits record them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchgen.errors import TreeError
from patchgen.source.addresses import relative
from patchgen.system import paths

if TYPE_CHECKING:
    from patchgen.system.git import Git

_GITLINK = b"160000"


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

    @property
    def work_tree(self) -> str:
        """Where its files are."""
        return os.path.join(self.root, self.path) if self.path else self.root

    @property
    def shown(self) -> str:
        """For people."""
        return paths.printable(paths.from_native(self.path or self.root))

    def inside(self, name: str) -> str:
        """A path in its git directory."""
        return os.path.join(self.git_dir, name)


def git_dir_of(work_tree: str) -> str | None:
    """The git directory of a work tree, None where it has none or what it names is not there."""
    link = os.path.join(work_tree, ".git")
    if os.path.isdir(link):
        return link
    try:
        with open(link, "rb") as file:
            line = file.readline().strip()
    except OSError:
        return None
    target = os.path.normpath(os.path.join(work_tree, os.fsdecode(line[len(b"gitdir: ") :])))
    return target if line.startswith(b"gitdir: ") and os.path.isdir(target) else None


def submodules(git: Git, parent: Repository) -> list[Repository]:
    """The submodules of the parent's commit: its gitlinks, with what .gitmodules says of them.

    Raises:
        TreeError: a gitlink has no name or no address.
    """
    listed = git("ls-tree", "-r", "-z", parent.commit, git_dir=parent.git_dir)
    links = {}
    for entry in listed.split(b"\0"):
        about, _, place = entry.partition(b"\t")
        if about.startswith(_GITLINK):
            links[os.fsdecode(place)] = about.split()[2].decode()
    if not links:
        return []
    names, urls = _modules(git, parent)
    found = []
    for path, commit in links.items():
        name = names.get(path, "")
        if not urls.get(name) or ".." in name.split("/"):
            where = os.path.join(parent.path, ".gitmodules")
            raise TreeError(f"{where}: says no name and address for {path}")
        work_tree = os.path.join(parent.work_tree, path)
        own = git_dir_of(work_tree) or parent.inside(f"modules/{name}")
        found.append(
            Repository(
                parent.root, os.path.join(parent.path, path), (*parent.names, name), own, commit,
                relative(urls[name], parent.url),
            )
        )  # fmt: skip
    return found


def _modules(git: Git, parent: Repository) -> tuple[dict[str, str], dict[str, str]]:
    """Names by path and addresses by name, from the commit and not from the file beside it."""
    blob = f"--blob={parent.commit}:.gitmodules"
    listed = git("config", "-z", blob, "--get-regexp", r"^submodule\..*\.(path|url)$",
                 git_dir=parent.git_dir)  # fmt: skip
    names, urls = {}, {}
    for entry in filter(None, listed.split(b"\0")):
        key, _, value = os.fsdecode(entry).partition("\n")
        name = key[len("submodule.") : key.rindex(".")]
        if key.endswith(".path"):
            names[value] = name
        else:
            urls[name] = value
    return names, urls
