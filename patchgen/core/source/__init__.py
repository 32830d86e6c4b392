"""Source of a build: a pinned commit of PyTorch with its submodules, fetched and verified."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from patchgen.core.patch.pins import Pin
from patchgen.core.patch.state import State, inspect, resolve
from patchgen.core.source import repository
from patchgen.core.source.fill import fill
from patchgen.core.source.repository import Repository
from patchgen.core.source.request import SourceRequest
from patchgen.core.source.staging import nothing_left, read_mark, remove_mark
from patchgen.core.source.survey import Survey, survey
from patchgen.errors import file_errors
from patchgen.system import lock, paths
from patchgen.system.git import Git, head


@dataclass(frozen=True)
class Source:
    """A verified tree. Mappings are by path in it; the empty path is PyTorch itself."""

    root: str
    pin: Pin
    tree: State
    """State of the files that the patch touches."""
    epoch: int
    """Time of the commit, in seconds since 1970."""
    commits: Mapping[str, str]
    addresses: Mapping[str, str]
    """URLs as .gitmodules records them."""
    left_out: Sequence[str]
    """Paths of submodules that the user left out."""
    fetched: Mapping[str, str]
    """URLs or directories from which this run fetched."""

    @property
    def state(self) -> str:
        """State of the tree as users see it: clean or patched."""
        return self.tree.overall.value


def choose_pin(directory: str, known: Sequence[Pin], default: Pin) -> Pin:
    """Return the pin whose commit is checked out in the directory, else the default."""
    at = head(os.path.abspath(directory))
    found = at.commit if at else None
    return next((pin for pin in known if pin.commit == found), default)


def obtain(directory: str, wanted: SourceRequest) -> Source:
    """Make a directory a pin's commit of PyTorch with its submodules, or complete it.

    Existing files are verified and never changed. The directory may be new, empty, a clone of the
    commit, or left by a run that was stopped.

    Raises:
        OptionsError: a submodule cannot be left out.
        TreeError: the directory holds something else; each path is named, nothing was changed.
        ToolError: git is missing, or a repository cannot be fetched.
        FileError: the file system refused, or the disk is full.
    """
    with file_errors():
        root, git = _root(directory, wanted.pin), Git()
        with nothing_left(git, root), lock.held(paths.from_native(root.root)):
            found = survey(git, [root], wanted).require_sound(root)
            fetched: Mapping[str, str] = {}
            if found.absent or found.unwanted or read_mark(root):
                os.makedirs(root.git_dir, exist_ok=True)
                with lock.inherited(root.git_dir, "the git") as guard:
                    fetched = fill(Git(guard), root, found, wanted)
                remove_mark(root)
        return _source(root, wanted.pin, found, fetched)


def find(directory: str, pin: Pin, tree: State | None = None) -> Source | None:
    """Return the verified tree in a directory; None if it is missing or incomplete.

    `tree` is its state, if it has been inspected for this pin alone.

    Raises:
        TreeError: the directory holds something else; each path is named.
        ToolError: git is missing.
        FileError: the file system refused.
    """
    if not os.path.isdir(paths.encode(directory)):
        return None
    with file_errors():
        root = _root(directory, pin)
        found = survey(Git(), [root], SourceRequest(pin), tree).require_sound(root)
        if found.absent or read_mark(root):
            return None
        return _source(root, pin, found, {})


def _root(directory: str, pin: Pin) -> Repository:
    native = paths.native(directory)
    if os.path.lexists(native):
        resolve(directory)
    return repository.root(os.path.realpath(native), pin.commit)


def _source(root: Repository, pin: Pin, found: Survey, fetched: Mapping[str, str]) -> Source:
    name = paths.from_native(root.root)
    return Source(
        root=name,
        pin=pin,
        tree=found.tree or inspect(name, (pin,)),
        epoch=Git().epoch(root.commit, root.git_dir),
        commits={paths.from_native(one.path): one.commit for one in found.present},
        addresses={paths.from_native(one.path): one.url for one in found.present},
        left_out=[paths.from_native(one.path) for one in found.left_out],
        fetched=fetched,
    )
