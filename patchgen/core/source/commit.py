"""Single files of a commit, from a clone in the cache that holds its trees and few of its files."""

from __future__ import annotations

import contextlib
import os
import posixpath
from typing import TYPE_CHECKING

from patchgen.core.source.fetch import NowhereError, fetch, fetch_objects
from patchgen.core.source.repository import root, submodules
from patchgen.errors import ToolError, TreeError
from patchgen.system import leftovers, outputs
from patchgen.system.git import MODULES, Git, GitError
from patchgen.system.objects import entries, object_id, tree_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from patchgen.core.patch.pins import Pin
    from patchgen.core.source.places import Places
    from patchgen.core.source.repository import Repository
    from patchgen.system.objects import Entry

_CLONES = "git"  # in the cache


def open_pinned(pin: Pin, cache: str, places: Places) -> Commit:
    """Opens the commit of a pin, of which nothing need be here.

    Args:
        pin: of PyTorch.
        cache: the directory of what is downloaded and used again.
        places: where to look before the network.
    """
    return Commit(Git(), root(cache, pin.commit), cache, places)


class Commit:
    """A commit of a repository, read object by object. Each is verified by its id at each use.

    What the clone lacks is fetched. A damaged clone gives way to another. Several threads and
    processes may use one at once: it is moved into its place when it is complete, git adds to it by
    whole files, and nobody takes away another clone than the one that he found lacking.
    """

    def __init__(self, git: Git, repository: Repository, cache: str, places: Places) -> None:
        """Reads nothing yet.

        Args:
            git: that reads and fetches.
            repository: which commit of which one; nothing of it need be there.
            cache: the directory of what is downloaded and used again.
            places: where to look before the network.
        """
        self.git_dir = os.path.join(cache, _CLONES, f"{repository.commit}.git")
        self._git = git
        self._repository = repository
        self._places = places

    def entry(self, path: str) -> Entry:
        """Entry at a path of the commit.

        Raises:
            TreeError: there is none.
            NowhereError: the commit could not be had.
        """
        head, name = posixpath.split(path)
        for entry in self.directory(head):
            if entry.name == name:
                return entry
        raise TreeError(f"{self._repository.commit}: has no {path}")

    def directory(self, path: str) -> list[Entry]:
        """Entries of a directory of the commit; the empty path is its root.

        Raises:
            TreeError: there is no such directory.
            NowhereError: the commit could not be had.
        """
        if path:
            found = self.entry(path)
            if not found.is_tree:
                raise TreeError(f"{self._repository.commit}: {path} is no directory")
            tree = found.id
        else:
            commit = self._repository.commit
            tree = tree_of(self._read("commit", [commit])[commit])
        return entries(self._read("tree", [tree])[tree])

    def files(self, directory: str, suffixes: Sequence[str]) -> dict[str, str]:
        """Path to id of the files under a directory whose names end so."""
        found = {}
        for entry in self.directory(directory):
            path = posixpath.join(directory, entry.name)
            if entry.is_tree:
                found.update(self.files(path, suffixes))
            elif entry.name.endswith(tuple(suffixes)):
                found[path] = entry.id
        return found

    def contents(self, wanted: dict[str, str]) -> dict[str, bytes]:
        """Path to content of files, by their ids; fetched together.

        Raises:
            NowhereError: they could not be had.
        """
        found = self._read("blob", {*wanted.values()})
        return {path: found[name] for path, name in wanted.items()}

    def read(self, wanted: Iterable[str]) -> dict[str, bytes]:
        """Path to content of files; fetched together.

        Raises:
            TreeError: there is no such file.
            NowhereError: they could not be had.
        """
        return self.contents({path: self.entry(path).id for path in wanted})

    def submodules(self) -> list[Repository]:
        """The submodules of the commit.

        Raises:
            NowhereError: they could not be known.
        """
        self.contents({one.name: one.id for one in self.directory("") if one.name == MODULES})
        return submodules(self._git, self._repository, self.git_dir)

    def _read(self, kind: str, names: Iterable[str]) -> dict[str, bytes]:
        absent = [*names]
        found: dict[str, bytes] = {}
        for bring in (self._add, self._renew, self._complete, None):
            clone = self._identity()
            found.update(self._read_clone(kind, absent))
            absent = [name for name in absent if name not in found]
            if absent and bring is not None:
                bring(absent, clone)
        if absent:
            about = self._repository.title
            raise NowhereError(f"{about}: the {kind} {absent[0]} could not be had")
        return found

    def _identity(self) -> tuple[int, int] | None:
        """Which clone is in the place; None for none."""
        try:
            about = os.stat(self.git_dir)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return about.st_dev, about.st_ino

    def _read_clone(self, kind: str, names: Sequence[str]) -> dict[str, bytes]:
        """Reads the objects that are in the clone and have the content of their ids."""
        if not names or not os.path.isdir(self.git_dir):
            return {}
        try:
            found = self._git.objects(names, self.git_dir)
        except ToolError:  # the clone is damaged, or another process just takes it away
            return {}
        return {name: text for name, text in found.items() if object_id(kind, text) == name}

    def _add(self, names: Sequence[str], _: tuple[int, int] | None) -> None:
        """Fetches files that the clone lacks, from the first place that gives them."""
        if not os.path.isdir(self.git_dir):
            return
        lacking = self._git.lacking(self._repository.commit, self.git_dir) or set()
        files = lacking.intersection(names)
        for place in self._repository.find_places(self._places) if files else ():
            with contextlib.suppress(GitError):
                fetch_objects(self._git, self.git_dir, files, place)
                return

    def _renew(self, names: Sequence[str], clone: tuple[int, int] | None) -> None:
        """Makes a new clone where there is none, or a damaged one."""
        self._clone(clone, files=False)
        self._add(names, None)

    def _complete(self, _: Sequence[str], clone: tuple[int, int] | None) -> None:
        """Makes a clone with all files, as no place gives single ones."""
        self._clone(clone, files=True)

    def _clone(self, lacking: tuple[int, int] | None, *, files: bool) -> None:
        """Puts a new clone into the place, where there is none or the lacking one."""
        base = os.path.dirname(self.git_dir)
        outputs.make_cache(base)
        with leftovers.owned("clone", base, hidden=True) as draft:
            made = os.path.join(draft, "made")
            os.mkdir(made)
            self._git("init", "-q", "--bare", "--template=", "--object-format=sha1", git_dir=made)
            fetch(self._git, made, self._repository, self._places, files=files)
            if self._identity() == lacking:
                with contextlib.suppress(FileNotFoundError):
                    os.rename(self.git_dir, os.path.join(draft, "old"))
            try:
                os.rename(made, self.git_dir)
            except OSError:
                if not os.path.isdir(self.git_dir):  # else another was quicker
                    raise
