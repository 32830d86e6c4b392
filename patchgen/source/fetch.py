"""Brings the objects of one commit into a git directory, by the cheapest way that is allowed."""

from __future__ import annotations

import functools
import glob
import os
from typing import TYPE_CHECKING

from patchgen.errors import ToolError
from patchgen.source import mark
from patchgen.system.git import GitError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from patchgen.source.addresses import Source
    from patchgen.source.repository import Repository
    from patchgen.system.git import Git

ALL_REFS = ("+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")
_LEFT_BY_KILLED = ("*.lock", "refs/**/*.lock", "objects/pack/*.lock", "objects/pack/tmp_*")
# A submodule's git directory names a work tree, which need not be there.
_SERVER = "env GIT_WORK_TREE=. git-upload-pack"
FETCH = ("fetch", "-q", "--no-tags", "--no-recurse-submodules")

# What git or a server says where a commit cannot be asked for by its id. All else, as a host
# not reached or a repository without the commit, is no reason to fetch a whole history.
CLOSED = ("unadvertised object", "does not support", "dumb http", "not valid")


def complete(git: Git, repository: Repository) -> bool:
    """Whether all objects of the commit are there. Its history does not count."""
    if not os.path.isdir(repository.git_dir):
        return False
    try:
        listed = git("rev-list", "--objects", "--no-walk", "--missing=print", repository.commit,
                     git_dir=repository.git_dir)  # fmt: skip
    except GitError:
        return False
    return not any(line.startswith(b"?") for line in listed.splitlines())


def prepare(git: Git, repository: Repository) -> None:
    """Makes the git directory, or takes away what a killed git left in it."""
    os.makedirs(repository.git_dir, exist_ok=True)
    os.makedirs(repository.work_tree, exist_ok=True)
    if mark.read(repository) is None:
        mark.write(repository)
    else:
        base = glob.escape(repository.git_dir)
        for pattern in _LEFT_BY_KILLED:
            for path in glob.glob(os.path.join(base, pattern), recursive=True):
                os.unlink(path)
    git("init", "-q", "--template=", "--object-format=sha1",
        git_dir=repository.git_dir, work_tree=repository.work_tree)  # fmt: skip
    settings = {"remote.origin.url": repository.url}
    if repository.path:
        settings["core.worktree"] = os.path.relpath(repository.work_tree, repository.git_dir)
    for name, value in settings.items():
        git("config", name, value, git_dir=repository.git_dir)


def fetch(git: Git, repository: Repository, sources: Iterable[Source]) -> Source:
    """Fetches from the first source that has the commit, and returns that source.

    Raises:
        ToolError: none has it; the message says why, for each.
        FileError: the disk is full.
    """
    reasons = []
    for source in sources:
        try:
            if source.bundle:
                from_bundle(git, repository, source.address)
            else:
                _from_repository(git, repository, source.address)
        except GitError as error:
            reasons.append(f"{source.address}: {error.reason}")
            continue
        if complete(git, repository):
            return source
        reasons.append(f"{source.address}: does not have this commit")
    raise ToolError(f"{repository.shown} {repository.commit[:12]}: " + "\n    ".join(reasons))


def from_bundle(git: Git, repository: Repository, bundle: str) -> None:
    """Fetches all that a bundle has."""
    heads = git("bundle", "list-heads", bundle, git_dir=repository.git_dir).splitlines()
    names = b"".join(line.partition(b" ")[2] + b"\n" for line in heads)
    git(*FETCH, "--stdin", "--", bundle, git_dir=repository.git_dir, stdin=names)


def _from_repository(git: Git, repository: Repository, address: str) -> None:
    """One commit without history; all of the history where a commit cannot be asked for.

    A clone without files is nothing in between: a server that gives single files gives single
    commits as well.
    """
    local = [f"--upload-pack={_SERVER}"] if os.path.isabs(address) else []
    run = functools.partial(git, *FETCH, *local, git_dir=repository.git_dir)
    try:
        run("--depth=1", "--", address, repository.commit)
    except GitError as error:
        if not any(sign in error.reason for sign in CLOSED):
            raise
        run("--", address, *ALL_REFS)
