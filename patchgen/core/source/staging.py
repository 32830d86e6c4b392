"""Checks a commit out beside its path and moves it there whole; marks unfinished trees."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator

from patchgen.core.source.repository import Repository
from patchgen.errors import ToolError, TreeError
from patchgen.system import files, outputs
from patchgen.system.git import Git

_MARK = "switchml-source"  # in the git directory of an unfinished tree: the wanted commit
_STAGING = "switchml-checkout"  # in a git directory: a complete work tree, not yet moved


def is_placed(repository: Repository) -> bool:
    """Return whether there is a complete work tree."""
    return not is_staged(repository) and repository.head is not None


def is_staged(repository: Repository) -> bool:
    """Return whether an earlier run stopped while it made the work tree."""
    return any(os.path.exists(repository.inside(name)) for name in (_STAGING, f"{_STAGING}.tmp"))


def list_obstacles(repository: Repository) -> list[str]:
    """Return names of files that are in the way of the work tree."""
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
    """Check out the commit into a work tree that has none of its files.

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
    # Git finds a submodule by its .git, so that is moved last.
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
    """Make a directory for the block; remove it if that fails before the commit is there."""
    made = not os.path.lexists(root.git_dir)
    with outputs.directory(root.work_tree):
        try:
            yield
        except ToolError:
            if made and git.lacking(root.commit, root.git_dir) is None:
                shutil.rmtree(root.git_dir, ignore_errors=True)
            raise


def read_mark(root: Repository) -> str | None:
    """Return the commit that an unfinished tree is to be at; None without a mark."""
    try:
        with open(root.inside(_MARK), encoding="ascii") as file:
            return file.read().strip()
    except FileNotFoundError:
        return None


def list_marks_begun(root: Repository) -> list[str]:
    """Return the temporary files of runs that were killed while writing the mark."""
    names = os.listdir(root.git_dir)
    return [root.inside(name) for name in names if name.endswith(files.TEMPORARY)]


def write_mark(root: Repository) -> None:
    """Mark a tree as unfinished; its git directory must exist."""
    for path in list_marks_begun(root):
        os.unlink(path)
    text = f"{root.commit}\n"
    files.replace(os.fsencode(root.inside(_MARK)), text.encode("ascii"))


def remove_mark(root: Repository) -> None:
    """Mark a tree as finished."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(root.inside(_MARK))
