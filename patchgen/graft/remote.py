"""Single files of a pinned commit: from the store, else fetched into it, and nothing else of it."""

from __future__ import annotations

import os
import posixpath
from typing import TYPE_CHECKING

from patchgen.errors import ToolError, TreeError
from patchgen.source import addresses
from patchgen.source.fetch import ALL_REFS, CLOSED, FETCH, from_bundle
from patchgen.system.git import Git, GitError
from patchgen.system.objects import entries, tree_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from patchgen.source import Places
    from patchgen.source.addresses import Source
    from patchgen.source.repository import Repository
    from patchgen.system.objects import Entry, Store

_TREE = "40000"
# A repository on this machine gives single objects only if it is told to.
_SERVER = (
    "env GIT_WORK_TREE=. git -c uploadpack.allowFilter=true -c uploadpack.allowAnySHA1InWant=true "
    "upload-pack"
)
_ADVICE = (
    "without a network give --source (the source of that torch), --mirror or --reference, or set "
    "url.<base>.insteadOf in git's configuration"
)


class Commit:
    """A commit of a repository, read object by object. Each is verified by its id.

    The first that is not in the store makes git fetch the commit and its trees, and then the files
    that are asked for.
    """

    def __init__(self, repository: Repository, store: Store, places: Places) -> None:
        """Reads nothing yet.

        Args:
            repository: its git directory need not exist; it is made, to fetch into.
            store: where the objects are kept.
            places: where to look before the network.
        """
        self._repository = repository
        self._store = store
        self._places = places
        self._git = Git()
        self._fetched = False

    def entry(self, path: str) -> Entry:
        """What is at a path of the commit.

        Raises:
            TreeError: nothing is.
            ToolError: the commit could not be had.
        """
        head, name = posixpath.split(path)
        for entry in self.directory(head):
            if entry.name == name:
                return entry
        raise TreeError(f"{self._repository.commit}: has no {path}")

    def directory(self, path: str) -> list[Entry]:
        """What is in a directory of the commit; the empty path is its root.

        Raises:
            TreeError: there is no such directory.
            ToolError: the commit could not be had.
        """
        if path:
            found = self.entry(path)
            if found.mode != _TREE:
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
            if entry.mode == _TREE:
                found.update(self.files(path, suffixes))
            elif entry.name.endswith(tuple(suffixes)):
                found[path] = entry.id
        return found

    def contents(self, wanted: dict[str, str]) -> dict[str, bytes]:
        """Path to content of files, by their ids; fetched together.

        Raises:
            ToolError: they could not be had.
        """
        found = self._read("blob", wanted.values())
        return {path: found[name] for path, name in wanted.items()}

    def _read(self, kind: str, names: Iterable[str]) -> dict[str, bytes]:
        found = {name: self._store.get(kind, name) for name in names}
        missing = [name for name, content in found.items() if content is None]
        if missing:
            self._bring(missing if kind == "blob" else [])
            for name, content in self._objects(missing).items():
                self._store.put(kind, name, content)
                found[name] = content
        return {name: content or b"" for name, content in found.items()}

    def _bring(self, blobs: Sequence[str]) -> None:
        """Fetches the commit with its trees, and of these files what did not come with it."""
        if not self._fetched:
            self._fetch()
            self._fetched = True
        if blobs:
            absent = self._absent()
            lines = "".join(f"{name}\n" for name in blobs if name in absent).encode("ascii")
            if lines:
                self._run(*FETCH, "--no-write-fetch-head", "--filter=blob:none", "--stdin",
                          "origin", stdin=lines)  # fmt: skip

    def _fetch(self) -> None:
        os.makedirs(self._repository.git_dir, exist_ok=True)
        self._run("init", "-q", "--bare", "--template=", "--object-format=sha1")
        reasons = []
        places = self._places
        for source in addresses.sources(self._repository, places.mirrors, places.references):
            reason = self._refusal(source)
            if not reason:
                return
            reasons.append(f"{source.address}: {reason}")
        about = f"{self._repository.path or 'PyTorch'} {self._repository.commit[:12]}"
        raise ToolError("\n    ".join([f"{about}:", *reasons]) + f"\n{_ADVICE}")

    def _refusal(self, source: Source) -> str:
        """Why the commit is not to be had from there; empty where it was fetched."""
        try:
            if source.bundle:
                from_bundle(self._git, self._repository, source.address)
            else:
                self._from_repository(source.address)
            self._run("cat-file", "-e", f"{self._repository.commit}^{{tree}}")
        except GitError as error:
            return error.reason
        return ""

    def _from_repository(self, address: str) -> None:
        settings = {
            "extensions.partialClone": "origin",
            "fetch.negotiationAlgorithm": "noop",
            "remote.origin.partialclonefilter": "blob:none",
            "remote.origin.promisor": "true",
            "remote.origin.uploadpack": "git-upload-pack",
            "remote.origin.url": address,
        }
        # It may be a path on this machine by the user's own configuration.
        real = self._run("ls-remote", "--get-url", address).decode(errors="replace").strip()
        if os.path.isabs(real) or real.startswith("file:"):
            settings["remote.origin.uploadpack"] = _SERVER
        for name, value in settings.items():
            self._run("config", name, value)
        fetch = (*FETCH, "--filter=blob:none")
        try:
            self._run(*fetch, "--depth=1", "origin", self._repository.commit)
        except GitError as error:
            if not any(sign in error.reason for sign in CLOSED):
                raise
            self._run(*fetch, "origin", *ALL_REFS)

    def _absent(self) -> set[str]:
        """The files of the commit that were not fetched with it."""
        listed = self._run("rev-list", "--objects", "--no-walk", "--missing=print",
                           self._repository.commit)  # fmt: skip
        return {line[1:].decode() for line in listed.splitlines() if line.startswith(b"?")}

    def _objects(self, names: Sequence[str]) -> dict[str, bytes]:
        text = self._run("cat-file", "--batch", stdin="".join(f"{n}\n" for n in names).encode())
        found = {}
        position = 0
        for name in names:
            end = text.index(b"\n", position)
            about = text[position:end].decode(errors="replace")
            if not about.startswith(f"{name} ") or about.endswith(" missing"):
                raise ToolError(f"object {name} of {self._repository.url} could not be had")
            size = int(about.split()[2])
            found[name] = text[end + 1 : end + 1 + size]
            position = end + 1 + size + 1
        return found

    def _run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        return self._git(*arguments, git_dir=self._repository.git_dir, stdin=stdin)
