"""The source: a pinned commit of PyTorch with its submodules, fetched, in place and verified."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchgen.errors import TreeError, file_errors
from patchgen.patch import state
from patchgen.source import mark
from patchgen.source.addresses import PYTORCH
from patchgen.source.faults import Survey, survey
from patchgen.source.fill import Places, Report, fill
from patchgen.source.place import placed
from patchgen.source.repository import Repository, git_dir_of
from patchgen.system import checkout, lock, paths
from patchgen.system.git import Git

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchgen.patch.pins import Pin

__all__ = ["Places", "Tree", "choose", "obtain", "present"]


@dataclass(frozen=True)
class Tree:
    """A verified tree: its root, its repositories by path, and where the new ones came from."""

    root: str
    pin: Pin
    state: str
    commits: Mapping[str, str]
    addresses: Mapping[str, str]
    fetched: Mapping[str, str]


def choose(directory: str, known: Sequence[Pin], default: Pin) -> Pin:
    """The pin whose commit is checked out in the directory, else the default."""
    head = checkout.head(os.path.abspath(directory))
    found = head.commit if head else None
    return next((pin for pin in known if pin.commit == found), default)


def obtain(directory: str, pin: Pin, places: Places, jobs: int, report: Report) -> Tree:
    """Makes the directory the pin's commit of PyTorch with all submodules, or completes it.

    What is there is verified and never changed. A run that was stopped is continued.

    Args:
        directory: new, empty, left by a run that was stopped, or a clone of the commit.
        pin: which commit.
        places: where to look before the network.
        jobs: how many repositories are fetched at once.
        report: called with a line as each repository is complete.

    Raises:
        TreeError: the directory has something else; each path is named, nothing was changed.
        ToolError: git is missing, or a repository could not be had.
        FileError: the file system refused, or the disk is full.
    """
    with file_errors():
        if not os.path.lexists(paths.encode(directory)):
            os.makedirs(paths.encode(directory))
        root = _root(directory, pin)
        with lock.held(paths.from_native(root.root)):
            found = _sound(survey(Git(), root, pin), root)
            fetched: Mapping[str, str] = {}
            if found.absent or mark.read(root):
                fetched = _complete(root, places, jobs, report)
                found = _sound(survey(Git(), root, pin), root)
                mark.remove(root)
    return _tree(root, pin, found, fetched)


def present(directory: str, pin: Pin) -> Tree | None:
    """The tree that is in the directory, verified; None where it is not there or not complete.

    Raises:
        TreeError: the directory has something else; each path is named.
        ToolError: git is missing.
        FileError: the file system refused.
    """
    if not os.path.isdir(paths.encode(directory)):
        return None
    with file_errors():
        root = _root(directory, pin)
        found = _sound(survey(Git(), root, pin), root)
        if found.absent or mark.read(root):
            return None
    return _tree(root, pin, found, {})


def _root(directory: str, pin: Pin) -> Repository:
    native = os.fsdecode(paths.encode(state.resolve(directory)))
    git_dir = git_dir_of(native) or os.path.join(native, ".git")
    return Repository(native, "", (), git_dir, pin.commit, PYTORCH)


def _tree(root: Repository, pin: Pin, found: Survey, fetched: Mapping[str, str]) -> Tree:
    return Tree(
        root=paths.from_native(root.root),
        pin=pin,
        state=found.state.value if found.state else "",
        commits={paths.from_native(one.path): one.commit for one in found.present},
        addresses={paths.from_native(one.path): one.url for one in found.present},
        fetched=fetched,
    )


def _complete(root: Repository, places: Places, jobs: int, report: Report) -> dict[str, str]:
    os.makedirs(root.git_dir, exist_ok=True)
    with lock.inherited(root.git_dir, "the git", report) as guard:
        if placed(root):
            if mark.read(root) is None:
                mark.write(root)
            else:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(root.inside("config.lock"))
        return fill(Git(guard), root, places, jobs, report)


def _sound(found: Survey, root: Repository) -> Survey:
    if found.wrong:
        lines = [str(problem) for problem in found.wrong]
        lines.append(f"{root.shown}: nothing of this is changed; mend it, or give a new directory")
        raise TreeError("\n".join(lines))
    return found
