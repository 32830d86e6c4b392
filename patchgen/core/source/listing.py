"""List of the repositories that a tree needs, also before it is there."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchgen.core.source.addresses import list_addresses, owner_and_name
from patchgen.core.source.commit import Commit
from patchgen.core.source.fill import run_each, summarize
from patchgen.core.source.repository import submodules
from patchgen.core.source.request import SETUP, list_inactive, read_setup
from patchgen.errors import ToolError
from patchgen.system import paths
from patchgen.system.git import GitError
from patchgen.system.tables import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchgen.core.source.repository import Repository
    from patchgen.core.source.request import SourceRequest
    from patchgen.system.git import Git

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class ListedRepository:
    """A repository of a tree."""

    path: str
    """Path in the tree; empty for PyTorch itself."""
    commit: str
    addresses: tuple[str, ...]
    """The recorded one, then those that the repository had later."""
    state: str
    """present, absent or left out."""
    unknown: str = ""
    """Reason why its submodules are not known; else empty."""

    @property
    def name(self) -> str:
        """Name of its clone in a folder of mirrors."""
        return "+".join(part for part in owner_and_name(self.addresses[0]) if part)


def list_repositories(
    git: Git, root: Repository, wanted: SourceRequest, cache: str
) -> list[ListedRepository]:
    """Lists all repositories of a tree, nested ones too, by their paths.

    What is in a repository that is not there is read from its commit and trees, which are fetched
    into the cache. Nothing else is changed.

    Raises:
        OptionsError: something is to be left out that cannot be.
        ToolError: PyTorch's commit could not be had.
    """

    def read(repository: Repository) -> tuple[list[Repository], bytes]:
        return _read(git, repository, Commit(git, repository, cache, wanted.places))

    found: list[ListedRepository] = []
    level = [root]
    while level:
        what = "PyTorch" if level == [root] else counted(len(level), "submodule")
        _LOGGER.info("looking at %s", what)
        understood, failed = run_each(git, read, level, lambda *_: None)
        if root in failed:
            raise ToolError(summarize([str(failed[root])])) from failed[root]
        found += [_describe(one, unknown=str(failed.get(one, ""))) for one in level]
        level = []
        for parent, (children, setup) in understood.items():
            wanted.check(parent, children, setup)
            out = _left_out(git, parent, children, wanted)
            found += [_describe(one, state="left out") for one in out]
            level += [one for one in children if one not in out]
    return sorted(found, key=lambda one: one.path)


def _read(git: Git, repository: Repository, commit: Commit) -> tuple[list[Repository], bytes]:
    """The submodules of a repository, and the setup.py of PyTorch itself."""
    own = repository.git_dir
    try:
        if os.path.isdir(own):
            return submodules(git, repository), read_setup(git, repository, own)
    except GitError:  # it does not have the commit
        pass
    found = commit.submodules()
    if repository.path:
        return found, b""
    setup = {one.name: one.id for one in commit.directory("") if one.name == SETUP}
    return found, commit.contents(setup).get(SETUP, b"")


def _left_out(
    git: Git, parent: Repository, children: Sequence[Repository], wanted: SourceRequest
) -> list[Repository]:
    """Submodules to leave out that are not checked out."""
    there = parent.head == parent.commit and not wanted.everything
    names = list_inactive(git, parent) if there else set()
    out = [one for one in children if wanted.leaves_out(one) or one.names[-1] in names]
    return [one for one in out if one.head != one.commit]


def _describe(repository: Repository, *, state: str = "", unknown: str = "") -> ListedRepository:
    there = "present" if repository.head == repository.commit else "absent"
    path = paths.from_native(repository.path)
    return ListedRepository(
        path, repository.commit, list_addresses(repository.url), state or there, unknown
    )
