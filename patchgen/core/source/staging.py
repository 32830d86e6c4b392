"""A commit checked out beside its place and moved there whole, and the mark of unfinished trees."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator

from patchgen.core.source.repository import Repository
from patchgen.errors import ToolError, TreeError
from patchgen.system import files, outputs
from patchgen.system.git import Git, directory_of

_MARK = "switchml-source"  # in a git directory of a tree that is not finished: the wanted commit
_STAGING = "switchml-checkout"  # in a git directory: a whole work tree that is not in its place


def is_placed(repository: Repository) -> bool:
    """True where there is a work tree that no run has left unfinished."""
    if directory_of(repository.work_tree) is None or is_staged(repository):
        return False
    return repository.head is not None


def is_staged(repository: Repository) -> bool:
    """True where a run was stopped while it made the work tree."""
    return any(os.path.exists(repository.inside(name)) for name in (_STAGING, f"{_STAGING}.tmp"))


def list_obstacles(repository: Repository) -> list[str]:
    """Names that are in the way of the work tree."""
    try:
        present = os.listdir(repository.work_tree)
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        return [repository.work_tree]
    if not os.path.isdir(repository.inside(_STAGING)):
        return [name for name in present if repository.path or name != ".git"]
    waiting = os.listdir(repository.inside(_STAGING))
    return [name for name in present if name in waiting]


def place(git: Git, repository: Repository) -> None:
    """Puts the files of the commit into the work tree, which has none of them.

    Raises:
        TreeError: something is in the way; it was not touched.
        GitError: git could not write the files.
    """
    staging = repository.inside(_STAGING)
    if not os.path.isdir(staging):
        _check_out(git, repository, staging)
    found = list_obstacles(repository)
    if found:
        raise TreeError(f"{repository.printable}: {found[0]} is in the way; move it elsewhere")
    # A submodule is there when git finds it, so its .git comes last.
    for name in sorted(os.listdir(staging), key=lambda name: (name == ".git", name)):
        os.rename(os.path.join(staging, name), os.path.join(repository.work_tree, name))
    os.rmdir(staging)


def _check_out(git: Git, repository: Repository, staging: str) -> None:
    draft = f"{staging}.tmp"
    shutil.rmtree(draft, ignore_errors=True)
    os.makedirs(draft)
    for name in ("index", "index.lock"):
        if os.path.exists(repository.inside(name)):
            os.unlink(repository.inside(name))
    git("checkout", "-q", "--force", "--detach", repository.commit,
        git_dir=repository.git_dir, work_tree=draft)  # fmt: skip
    if repository.path:
        link = os.path.relpath(repository.git_dir, repository.work_tree)
        with open(os.path.join(draft, ".git"), "wb") as file:
            file.write(b"gitdir: %s\n" % os.fsencode(link))
    os.rename(draft, staging)


@contextlib.contextmanager
def nothing_left(git: Git, root: Repository) -> Iterator[None]:
    """Makes a directory for the block; removes it if that raises before it has the commit."""
    made = not os.path.lexists(root.git_dir)
    with outputs.directory(root.work_tree):
        try:
            yield
        except ToolError:
            if made and git.lacking(root.commit, root.git_dir) is None:
                shutil.rmtree(root.git_dir, ignore_errors=True)
            raise


def read_mark(root: Repository) -> str | None:
    """The commit that is wanted; None where there is no mark."""
    try:
        with open(root.inside(_MARK), encoding="ascii") as file:
            return file.read().strip()
    except FileNotFoundError:
        return None


def list_marks_begun(root: Repository) -> list[str]:
    """The files of runs that were killed while they wrote the mark."""
    names = os.listdir(root.git_dir)
    return [root.inside(name) for name in names if name.endswith(files.TEMPORARY)]


def write_mark(root: Repository) -> None:
    """Marks a tree; its git directory is there."""
    for path in list_marks_begun(root):
        os.unlink(path)
    text = f"{root.commit}\n"
    files.replace(os.fsencode(root.inside(_MARK)), text.encode("ascii"))


def remove_mark(root: Repository) -> None:
    """The tree is finished."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(root.inside(_MARK))
