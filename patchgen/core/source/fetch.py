"""Brings one commit into a git directory, from the first place that has it.

`git submodule update` would do this for submodules. It fetches the newest commit beside the one
that is wanted, gives up where a server serves no single commits, and cannot go on with what it left
when it was killed.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping

from patchgen.core.source.places import Places
from patchgen.core.source.repository import Repository
from patchgen.errors import ToolError
from patchgen.system.git import Git, GitError

_FETCH = ("fetch", "-q", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head")
_ALL_REFS = ("+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")
# A repository on this machine gives single commits and objects only if it is told to. The git
# directory of a submodule names a work tree, which need not be there. Another user may own it: what
# comes from it is verified.
_SERVER = (
    "env GIT_WORK_TREE=. git -c 'safe.directory=*' -c uploadpack.allowFilter=true "
    "-c uploadpack.allowAnySHA1InWant=true upload-pack"
)
_REMOTE = "switchml-place"  # known on the command line only, so that no configuration changes
_NO_FILES = ("--filter=blob:none",)
_PARTIAL = {
    f"remote.{_REMOTE}.promisor": "true",
    f"remote.{_REMOTE}.partialclonefilter": "blob:none",
    "fetch.negotiationAlgorithm": "noop",
}

# What git or a server says where a commit cannot be asked for by its id. All else, as a host
# not reached or a repository without the commit, is no reason to fetch a whole history.
_CLOSED = ("unadvertised object", "does not support", "dumb http", "not valid")


class NowhereError(ToolError):
    """A commit could not be had; the message says why, for each place."""


def fetch(
    git: Git, git_dir: str, repository: Repository, places: Places, *, files: bool = True
) -> str:
    """Fetches a commit from the first place that has it, and returns that place.

    Args:
        git: that fetches.
        git_dir: where it goes to.
        repository: whose commit; without its history, where the place gives single commits.
        places: where to look before the network.
        files: without, only the commit and its trees come, where the place gives single objects.

    Raises:
        NowhereError: none has it.
        FileError: the disk is full.
    """
    reasons = []
    commit = repository.commit
    for place in repository.find_places(places):
        try:
            _from_repository(git, git_dir, commit, place, files=files)
        except GitError as error:
            reasons.append(f"{place}: {error.reason}")
            continue
        lacking = git.lacking(commit, git_dir)
        if lacking is not None and not (files and lacking):
            return place
        reasons.append(f"{place}: does not have this commit")
    reasons = [*repository.list_lacking_mirrors(places), *reasons]
    raise NowhereError("\n    ".join([f"{repository.title}:", *reasons]))


def fetch_objects(git: Git, git_dir: str, names: Iterable[str], place: str) -> None:
    """Fetches single objects.

    Raises:
        GitError: the place does not give them.
    """
    wanted = "".join(f"{name}\n" for name in names).encode("ascii")
    git(*_FETCH, *_NO_FILES, "--stdin", _REMOTE, git_dir=git_dir, stdin=wanted,
        config=_remote(git, git_dir, place, _PARTIAL))  # fmt: skip


def _from_repository(git: Git, git_dir: str, commit: str, address: str, *, files: bool) -> None:
    """Fetches one commit without history; all of the history where it cannot be asked for."""
    settings = _remote(git, git_dir, address, {} if files else _PARTIAL)
    run = functools.partial(git, *_FETCH, *(() if files else _NO_FILES),
                            git_dir=git_dir, config=settings)  # fmt: skip
    try:
        run("--depth=1", _REMOTE, commit)
    except GitError as error:
        if not any(sign in error.reason for sign in _CLOSED):
            raise
        run(_REMOTE, *_ALL_REFS)


def _remote(git: Git, git_dir: str, address: str, more: Mapping[str, str]) -> dict[str, str]:
    """Settings that make an address a remote for one command."""
    settings = {f"remote.{_REMOTE}.url": address, **more}
    # It may be a path on this machine by the user's own configuration.
    real = git("ls-remote", "--get-url", "--", address, git_dir=git_dir).decode(errors="replace")
    if os.path.isabs(real) or real.startswith("file:"):
        settings[f"remote.{_REMOTE}.uploadpack"] = _SERVER
    return settings
