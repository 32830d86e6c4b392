"""What git knows of a tree, read without running git: nothing in its configuration counts."""

from __future__ import annotations

import os
from dataclasses import dataclass

from patchgen.system import paths


@dataclass(frozen=True)
class Head:
    """HEAD of the repository whose work tree is the tree; `problem` where it cannot be read."""

    commit: str | None
    problem: str | None = None


def head(root: str) -> Head | None:
    """HEAD of the repository at `root`; None where `root` is not the top of a work tree."""
    native = os.fsdecode(paths.encode(root))
    if not os.path.lexists(os.path.join(native, ".git")):
        return None
    saved = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("GIT_")}
    os.environ["GIT_PYTHON_REFRESH"] = "quiet"  # git itself need not be installed
    try:
        import git  # noqa: PLC0415  # slow to import, and needed by no other command

        with git.Repo(native, expand_vars=False) as repository:
            commit = git.SymbolicReference.dereference_recursive(repository, "HEAD")
    except Exception as error:  # noqa: BLE001  # any damage of a repository is told, never fatal
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        return Head(None, reason)
    finally:
        del os.environ["GIT_PYTHON_REFRESH"]
        os.environ.update(saved)
    return Head(commit)
