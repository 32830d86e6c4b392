"""The source of SwitchML: the pinned commit of p4app-switchML."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass

from patchgen.core.source.commit import Commit
from patchgen.core.source.fill import bring
from patchgen.core.source.places import Places
from patchgen.core.source.repository import Repository
from patchgen.core.source.staging import is_placed, nothing_left
from patchgen.core.source.survey import find_obstacle, list_changes
from patchgen.errors import OptionsError, TreeError, file_errors
from patchgen.extras.client import mends
from patchgen.system import lock, paths
from patchgen.system.git import Git, directory_of, head, is_repository

URL = "https://github.com/p4lang/p4app-switchML.git"
NAME = "p4app-switchML"
LIBRARY = "dev_root/client_lib/src"
PROTOS = "dev_root/protos"
CONTROLLER = "dev_root/controller"

_SOURCES = {
    mends.LIBRARY: ((LIBRARY, PROTOS), (".cc", ".h", ".inc", ".proto")),
    mends.CONTROLLER: ((CONTROLLER, PROTOS), (".py", ".proto")),
}
"""Directories of a part of SwitchML, and the suffixes of its files."""


@dataclass(frozen=True)
class CommitOrigin:
    """Origin of the commit: a cache directory of ours, then places, then the network."""

    cache: str
    places: Places
    url: str = URL
    commit: str = mends.COMMIT


def _repository(directory: str, origin: CommitOrigin) -> Repository:
    git_dir = directory_of(directory) or os.path.join(directory, ".git")
    return Repository(directory, "", (), git_dir, origin.commit, origin.url, NAME)


def obtain(directory: str, origin: CommitOrigin) -> str | None:
    """Makes a directory the commit, without its submodules, which the library does not need.

    What is there is verified and never changed. A run that was stopped is continued.

    Args:
        directory: new, empty, left by a run that was stopped, or a clone at the commit; as text.
        origin: where the commit comes from.

    Returns:
        Where it was fetched from; None where it was there.

    Raises:
        TreeError: the directory has something else; nothing was changed.
        ToolError: git is missing, or the commit could not be had.
        FileError: the file system refused, or the disk is full.
    """
    with file_errors():
        native = os.path.realpath(paths.native(directory))
        repository, git, source = _repository(native, origin), Git(), None
        with nothing_left(git, repository), lock.held(paths.from_native(native)):
            if not is_placed(repository):
                problem = find_obstacle(repository)
                if problem:
                    raise TreeError(f"{problem}; give a new directory")
                source = bring(git, origin.places, repository)
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


def find_reference(directory: str, commit: str = mends.COMMIT) -> str:
    """Finds a clone that the user named, and that has the commit; returns its absolute path.

    Raises:
        OptionsError: it is none.
        TreeError: it lacks the commit.
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
    """Lists what of a clone is not in the commit that is read from it: HEAD and local changes."""
    at = head(paths.from_native(path))
    if at is None:  # it has no work tree
        return []
    repository = Repository(path, "", (), directory_of(path) or path, commit, URL, NAME)
    changes = [f"{one.path}: {one.found}" for one in list_changes(Git(), repository)]
    other = [f"{repository.printable}{_about_head(path)}"] if at.commit != commit else []
    return [f"{line}; {commit} is taken, as it was committed" for line in [*other, *changes]]


def read_sources(origin: CommitOrigin, part: str = mends.LIBRARY) -> dict[str, bytes]:
    """Reads the files of a part of SwitchML, by path, verified by their ids.

    They are read from git's objects: changes in a work tree do not count.

    Raises:
        ToolError: git is missing, or the commit could not be had.
        FileError: the cache cannot be written.
    """
    with file_errors():
        commit = Commit(Git(), _repository("", origin), origin.cache, origin.places)
        directories, suffixes = _SOURCES[part]
        wanted = {
            path: blob
            for directory in directories
            for path, blob in commit.files(directory, suffixes).items()
        }
        return commit.contents(wanted)
