"""Single files of a commit, read from a cached partial clone."""

from __future__ import annotations

import contextlib
import os
import posixpath
from collections.abc import Iterable, Sequence

from patchgen.core.patch.pins import Pin
from patchgen.core.source.fetch import NowhereError, fetch, fetch_objects
from patchgen.core.source.remotes import Remotes
from patchgen.core.source.repository import Repository, root, submodules
from patchgen.errors import ToolError, TreeError
from patchgen.system import leftovers, outputs
from patchgen.system.git import MODULES, Git, GitError
from patchgen.system.git_objects import Entry, entries, object_id, tree_of

_CLONES = "git"  # directory in the cache


def open_pinned(pin: Pin, cache: str, remotes: Remotes) -> Commit:
    """Return the commit of a pin. Nothing is fetched before it is read."""
    return Commit(root(cache, pin.commit), cache, remotes)


class Commit:
    """A commit of a repository, read object by object and verified by object ids.

    Missing objects are fetched, and a damaged clone is replaced. Several threads and processes may
    use a clone at once: it is renamed to its path when it is complete, git only adds whole files,
    and a process replaces only the clone in which it missed an object.
    """

    def __init__(self, repository: Repository, cache: str, remotes: Remotes) -> None:
        self.git_dir = os.path.join(cache, _CLONES, f"{repository.commit}.git")
        self._git = Git()
        self._repository = repository
        self._remotes = remotes

    def entry(self, path: str) -> Entry:
        """Return the entry at a path of the commit.

        Raises:
            TreeError: there is no such path.
            NowhereError: the commit could not be fetched.
        """
        head, name = posixpath.split(path)
        for entry in self.directory(head):
            if entry.name == name:
                return entry
        raise TreeError(f"{self._repository.commit}: has no {path}")

    def directory(self, path: str) -> list[Entry]:
        """Return the entries of a directory; the empty path is the root.

        Raises:
            TreeError: there is no such directory.
            NowhereError: the commit could not be fetched.
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
        """Return blob ids by path, for files under a directory with these suffixes."""
        found = {}
        for entry in self.directory(directory):
            path = posixpath.join(directory, entry.name)
            if entry.is_tree:
                found.update(self.files(path, suffixes))
            elif entry.name.endswith(tuple(suffixes)):
                found[path] = entry.id
        return found

    def contents(self, wanted: dict[str, str]) -> dict[str, bytes]:
        """Return contents by path, for blob ids by path; fetches all of them at once.

        Raises:
            NowhereError: a file could not be fetched.
        """
        found = self._read("blob", {*wanted.values()})
        return {path: found[name] for path, name in wanted.items()}

    def read(self, wanted: Iterable[str]) -> dict[str, bytes]:
        """Return the contents of files by path; fetches all of them at once.

        Raises:
            TreeError: there is no such file.
            NowhereError: a file could not be fetched.
        """
        return self.contents({path: self.entry(path).id for path in wanted})

    def submodules(self) -> list[Repository]:
        """Return the submodules of the commit.

        Raises:
            NowhereError: the commit's .gitmodules could not be fetched.
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
            raise NowhereError(f"{about}: the {kind} {absent[0]} could not be fetched")
        return found

    def _identity(self) -> tuple[int, int] | None:
        """Return device and inode of the clone; None where there is no clone."""
        try:
            about = os.stat(self.git_dir)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return about.st_dev, about.st_ino

    def _read_clone(self, kind: str, names: Sequence[str]) -> dict[str, bytes]:
        """Read objects from the clone; skip those that are missing or damaged."""
        if not names or not os.path.isdir(self.git_dir):
            return {}
        try:
            found = self._git.objects(names, self.git_dir)
        except ToolError:  # the clone is damaged, or another process is replacing it
            return {}
        return {name: text for name, text in found.items() if object_id(kind, text) == name}

    def _add(self, names: Sequence[str], _: tuple[int, int] | None) -> None:
        """Fetch missing files from the first repository that serves single objects."""
        if not os.path.isdir(self.git_dir):
            return
        lacking = self._git.lacking(self._repository.commit, self.git_dir) or set()
        files = lacking.intersection(names)
        for remote in self._repository.list_remotes(self._remotes) if files else ():
            with contextlib.suppress(GitError):
                fetch_objects(self._git, self.git_dir, files, remote)
                return

    def _renew(self, names: Sequence[str], clone: tuple[int, int] | None) -> None:
        """Replace a missing or damaged clone."""
        self._clone(clone, files=False)
        self._add(names, None)

    def _complete(self, _: Sequence[str], clone: tuple[int, int] | None) -> None:
        """Make a clone with all files, for servers without single objects."""
        self._clone(clone, files=True)

    def _clone(self, lacking: tuple[int, int] | None, *, files: bool) -> None:
        """Move a new clone to its path, unless another process replaced the incomplete one."""
        base = os.path.dirname(self.git_dir)
        outputs.make_cache(base)
        with leftovers.owned("clone", base, hidden=True) as draft:
            made = os.path.join(draft, "made")
            os.mkdir(made)
            self._git("init", "-q", "--bare", "--template=", "--object-format=sha1", git_dir=made)
            fetch(self._git, made, self._repository, self._remotes, files=files)
            if self._identity() == lacking:
                with contextlib.suppress(FileNotFoundError):
                    os.rename(self.git_dir, os.path.join(draft, "old"))
            outputs.publish(made, self.git_dir)
