"""Fetches one commit into a git directory, from the first repository that has it.

`git submodule update` would fetch the newest commit as well, gives up where a server does not serve
single commits, and cannot continue after a kill.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping

from patchgen.core.source.remotes import Remotes
from patchgen.core.source.repository import Repository
from patchgen.errors import ToolError
from patchgen.system.git import Git, GitError

_FETCH = ("fetch", "-q", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head")
_ALL_REFS = ("+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")
# A local repository serves single commits and objects only on request. The git directory of a
# submodule names a work tree, which may be missing. It may belong to another user, because
# everything fetched from it is verified.
_SERVER = (
    "env GIT_WORK_TREE=. GIT_NO_LAZY_FETCH=1 git -c 'safe.directory=*' "
    "-c uploadpack.allowFilter=true -c uploadpack.allowAnySHA1InWant=true upload-pack"
)
_REMOTE = "switchml-remote"  # set by options of a command, so no configuration changes
_NO_FILES = ("--filter=blob:none",)
_PARTIAL = {
    f"remote.{_REMOTE}.promisor": "true",
    f"remote.{_REMOTE}.partialclonefilter": "blob:none",
    "fetch.negotiationAlgorithm": "noop",
}

# Messages of git and of servers where commits cannot be fetched by id. Other failures, such as an
# unreachable host, are no reason to fetch a whole history.
_CLOSED = ("unadvertised object", "does not support", "dumb http", "not valid")


class NowhereError(ToolError):
    """No repository has a commit; the message has the reason for each."""


def fetch(
    git: Git, git_dir: str, repository: Repository, remotes: Remotes, *, files: bool = True
) -> str:
    """Fetch a commit from the first remote that has it, and return that remote.

    Without `files`, only the commit and its trees are fetched. History and files come along where a
    remote does not serve single commits or objects.

    Raises:
        NowhereError: no remote has the commit.
        FileError: the disk is full.
    """
    reasons = []
    commit = repository.commit
    for remote in repository.list_remotes(remotes):
        try:
            _from_repository(git, git_dir, commit, remote, files=files)
        except GitError as error:
            reason = error.reason
        else:
            lacking = git.lacking(commit, git_dir)
            if lacking is not None and not (files and lacking):
                return remote
            reason = "does not have this commit"
        reasons.append(f"{remote}: {_describe_part(git, remote) or reason}")
    reasons = [*remotes.list_lacking(repository.url, repository.path), *reasons]
    raise NowhereError("\n    ".join([f"{repository.title}:", *reasons]))


def _describe_part(git: Git, remote: str) -> str:
    """Return what a clone on this machine was made without; empty for a whole clone or a URL."""
    path = remote.removeprefix("file://")
    kind = git.describe_part(path) if os.path.isabs(path) and os.path.isdir(path) else ""
    return kind and f"is a {kind}, and not all of this commit is in it; give a whole clone"


def fetch_objects(git: Git, git_dir: str, names: Iterable[str], remote: str) -> None:
    """Fetch single objects.

    Raises:
        GitError: the repository does not serve them.
    """
    wanted = "".join(f"{name}\n" for name in names).encode("ascii")
    git(*_FETCH, *_NO_FILES, "--stdin", _REMOTE, git_dir=git_dir, stdin=wanted,
        config=_remote(git, git_dir, remote, _PARTIAL))  # fmt: skip


def _from_repository(git: Git, git_dir: str, commit: str, address: str, *, files: bool) -> None:
    """Fetch one commit without history, or all history if it has no single commits."""
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
    """Return settings that define an address as a remote for one command."""
    settings = {f"remote.{_REMOTE}.url": address, **more}
    # The user's configuration may map the address to a local path.
    real = git("ls-remote", "--get-url", "--", address, git_dir=git_dir).decode(errors="replace")
    if os.path.isabs(real) or real.startswith("file:"):
        settings[f"remote.{_REMOTE}.uploadpack"] = _SERVER
    return settings
