"""The source: a pinned commit of PyTorch with its submodules, fetched, in place and verified."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchgen import checkout, lock, paths, state
from patchgen.errors import TreeError, file_errors
from patchgen.sources import mark
from patchgen.sources.addresses import PYTORCH
from patchgen.sources.fill import Places, Report, fill
from patchgen.sources.git import Git
from patchgen.sources.place import placed
from patchgen.sources.repository import Repository, git_dir_of
from patchgen.sources.verify import Survey, survey

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from patchgen.pins import Pin

__all__ = ["Places", "Tree", "choose", "obtain"]

_PATIENCE = 60  # seconds for the git of a killed run to see that nobody reads from it


@dataclass(frozen=True)
class Tree:
    """A verified tree: its root, its repositories by path, and where the new ones came from."""

    root: str
    pin: Pin
    state: str
    commits: Mapping[str, str]
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
        tree = state.resolve(directory)
        with lock.held(tree):
            native = os.fsdecode(paths.encode(tree))
            git_dir = git_dir_of(native) or os.path.join(native, ".git")
            root = Repository(native, "", (), git_dir, pin.commit, PYTORCH)
            found = _sound(survey(Git(), root, pin), root)
            fetched: Mapping[str, str] = {}
            if found.absent or mark.read(root):
                fetched = _complete(root, places, jobs, report)
                found = _sound(survey(Git(), root, pin), root)
                mark.remove(root)
    overall = found.state.value if found.state else ""
    commits = {paths.from_native(one.path): one.commit for one in found.present}
    return Tree(tree, pin, overall, commits, fetched)


def _complete(root: Repository, places: Places, jobs: int, report: Report) -> dict[str, str]:
    os.makedirs(root.git_dir, exist_ok=True)
    with _guarded(root.git_dir, report) as guard:
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


@contextlib.contextmanager
def _guarded(git_dir: str, report: Report) -> Iterator[int]:
    """A lock that every git of ours inherits, so that it outlives us if they do.

    Raises:
        TreeError: the git of a run that was killed does not end.
    """
    descriptor = os.open(git_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + _PATIENCE
        told = False
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise TreeError(
                        f"{git_dir}: the git of a run that was killed is still at work; end it"
                    ) from None
            if not told:
                report("waiting for the git of a run that was killed")
                told = True
            time.sleep(0.1)
        yield descriptor
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)
