"""The source of SwitchML: the pinned commit of p4app-switchML."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchgen.core.source.commit import Commit
from patchgen.core.source.repository import Repository
from patchgen.core.source.survey import list_changes
from patchgen.errors import OptionsError, TreeError, file_errors
from patchgen.extras.lab.client import mends
from patchgen.system import paths
from patchgen.system.git import Git, directory_of, head, is_repository

if TYPE_CHECKING:
    from patchgen.core.source.places import Places

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


def find_reference(directory: str) -> str:
    """Finds a clone that the user named, and that has the commit; returns its absolute path.

    Raises:
        OptionsError: it is none.
        TreeError: it lacks the commit.
    """
    path, commit = os.path.abspath(directory), mends.COMMIT
    if not is_repository(path):
        raise OptionsError(f"{directory}: not a git repository; make one with: git clone {URL} DIR")
    if Git().lacking(commit, directory_of(path) or path) is None:
        raise TreeError(
            f"{directory}: has no commit {commit}{_about_head(path)}; get it with: "
            f"git -C {shlex.quote(path)} fetch {URL} {commit}"
        )
    return path


def _about_head(path: str) -> str:
    at = head(paths.from_native(path))
    return f", HEAD is {at.commit or at.problem}" if at else ""


def list_ignored(path: str) -> list[str]:
    """Lists what of a clone is not in the commit that is read from it: HEAD and local changes."""
    at, commit = head(paths.from_native(path)), mends.COMMIT
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
        repository = Repository("", "", (), "", origin.commit, origin.url, NAME)
        commit = Commit(Git(), repository, origin.cache, origin.places)
        directories, suffixes = _SOURCES[part]
        wanted = {
            path: blob
            for directory in directories
            for path, blob in commit.files(directory, suffixes).items()
        }
        return commit.contents(wanted)
