"""Source of SwitchML: the pinned commit of p4app-switchML."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass

from patchgen.core.source.commit import Commit
from patchgen.core.source.fill import bring
from patchgen.core.source.remotes import Remotes
from patchgen.core.source.repository import Repository
from patchgen.core.source.staging import is_placed, nothing_left
from patchgen.core.source.survey import find_obstacle, list_changes
from patchgen.errors import OptionsError, TreeError, file_errors
from patchgen.extras.client import fixes
from patchgen.system import lock, paths
from patchgen.system.git import Git, directory_of, head, is_repository

URL = "https://github.com/p4lang/p4app-switchML.git"
NAME = "p4app-switchML"
LIBRARY = "dev_root/client_lib/src"
PROTOS = "dev_root/protos"
CONTROLLER = "dev_root/controller"

_SOURCES = {
    fixes.LIBRARY: ((LIBRARY, PROTOS), (".cc", ".h", ".inc", ".proto")),
    fixes.CONTROLLER: ((CONTROLLER, PROTOS), (".py", ".proto")),
}
"""Directories and file suffixes of each part of SwitchML."""


@dataclass(frozen=True)
class CommitOrigin:
    """Cache directory and remotes of the commit, which are tried before the network."""

    cache: str
    remotes: Remotes
    url: str = URL
    commit: str = fixes.COMMIT


def _repository(directory: str, origin: CommitOrigin) -> Repository:
    git_dir = directory_of(directory) or os.path.join(directory, ".git")
    return Repository(directory, "", (), git_dir, origin.commit, origin.url, NAME)


def obtain(directory: str, origin: CommitOrigin) -> str | None:
    """Check out the commit in a directory, without submodules, which the library does not need.

    The directory is new or empty. A clone at the commit is verified and never changed, and an
    interrupted checkout is continued.

    Returns:
        Where the commit was fetched from; None if the clone existed.

    Raises:
        TreeError: the directory has something else, and was not changed.
        ToolError: git is missing, or the commit could not be fetched.
        FileError: a file cannot be written, or the disk is full.
    """
    with file_errors():
        native = os.path.realpath(paths.native(directory))
        repository, git, source = _repository(native, origin), Git(), None
        with nothing_left(git, repository), lock.held(paths.from_native(native)):
            if not is_placed(repository):
                problem = find_obstacle(repository)
                if problem:
                    raise TreeError(f"{problem}; give a new directory")
                source = bring(git, origin.remotes, repository)
                repository = _repository(native, origin)
            _verify(git, repository)
    return source


def _verify(git: Git, repository: Repository) -> None:
    if repository.head != repository.commit:
        raise TreeError(
            f"{repository.printable}: at {repository.head}, not at {repository.commit}; check that "
            "commit out, or give a new directory"
        )
    wrong = [str(problem) for problem in list_changes(git, repository)]
    if wrong:
        raise TreeError("\n".join([*wrong, "nothing of this is changed; give a new directory"]))


def find_reference(directory: str, commit: str = fixes.COMMIT) -> str:
    """Return the absolute path of a clone that the user named and that has the commit.

    Raises:
        OptionsError: the directory is not a git repository.
        TreeError: the clone lacks the commit.
    """
    path = os.path.abspath(directory)
    if not is_repository(path):
        raise OptionsError(
            f"{directory}: not a git repository; make one with: switchml-patch client source -o DIR"
        )
    if Git().lacking(commit, directory_of(path) or path) is None:
        raise TreeError(
            f"{directory}: has no commit {commit}{_about_head(path)}; get it with: "
            f"git -C {shlex.quote(path)} fetch {URL} {commit}"
        )
    return path


def _about_head(path: str) -> str:
    at = head(paths.from_native(path))
    return f", HEAD is {at.commit or 'without one'}" if at else ""


def list_ignored(path: str, commit: str) -> list[str]:
    """Return lines about another HEAD and local changes of a clone, which are ignored."""
    at = head(paths.from_native(path))
    if at is None:  # a bare clone
        return []
    repository = Repository(path, "", (), directory_of(path) or path, commit, URL, NAME)
    changes = [f"{one.path}: {one.found}" for one in list_changes(Git(), repository)]
    other = [f"{repository.printable}{_about_head(path)}"] if at.commit != commit else []
    return [f"{line}; {commit} is taken, as it was committed" for line in [*other, *changes]]


def read_sources(origin: CommitOrigin, part: str = fixes.LIBRARY) -> dict[str, bytes]:
    """Return the files of a part of SwitchML by path, verified by their blob ids.

    They are read from git's objects, so local changes are ignored.

    Raises:
        ToolError: git is missing, or the commit could not be fetched.
        FileError: the cache cannot be written.
    """
    with file_errors():
        commit = Commit(_repository("", origin), origin.cache, origin.remotes)
        directories, suffixes = _SOURCES[part]
        wanted = {
            path: blob
            for directory in directories
            for path, blob in commit.files(directory, suffixes).items()
        }
        return commit.contents(wanted)
