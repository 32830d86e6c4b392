"""References and mirrors, where repositories are looked for before the network."""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

from patchgen.core.source.addresses import list_addresses, owner_and_name
from patchgen.errors import OptionsError
from patchgen.system.git import is_repository


@dataclass(frozen=True)
class Remotes:
    """Mirrors and references of the user, as `parse_mirror` and `parse_reference` return them."""

    mirrors: Sequence[str] = ()
    references: Sequence[str] = ()

    def find(self, url: str, path: str = "", names: Sequence[str] = ()) -> Iterator[str]:
        """Yield the remotes of a repository in order, the recorded URLs last.

        Args:
            url: recorded URL.
            path: path in PyTorch's tree; empty for PyTorch itself.
            names: names of the submodules from the tree down to this one.
        """
        for reference in self.references:
            yield from _referenced(reference, path, names)
        for one in self.mirrors:
            yield from _mirrored(one, url, path)
        yield from list_addresses(url)

    def list_lacking(self, url: str, path: str = "") -> Iterator[str]:
        """Yield a line for each mirror without a repository of that name."""
        names = " or ".join(_names(url, path).values())
        for one in self.mirrors:
            if not any(_mirrored(one, url, path)):
                yield f"{one}: --mirror has no clone named {names}, with its owner or without"


def parse_mirror(given: str) -> str:
    """Return a mirror as an absolute path or a URL.

    Raises:
        OptionsError: the path is not a directory.
    """
    if "://" in given or re.match(r"[\w.-]+@[\w.-]+:", given):
        return given.rstrip("/")
    path = os.path.abspath(given)
    if not os.path.isdir(path):
        raise OptionsError(f"--mirror {given}: no such directory")
    return path


def parse_reference(given: str) -> str:
    """Return a local clone as an absolute path.

    Raises:
        OptionsError: the path is not a repository.
    """
    path = os.path.abspath(given)
    if not is_repository(path):
        raise OptionsError(f"--reference {given}: not a git repository")
    return path


def _mirrored(mirror: str, url: str, path: str) -> Iterator[str]:
    """Yield the repositories of a mirror that may be the one of this name."""
    names = _names(url, path)
    if not os.path.isabs(mirror):
        parts = [owner_and_name(address) for address in list_addresses(url)]
        paths = (end for owner, name in parts for end in (f"{owner}/{name}.git", f"{name}.git"))
        yield from (f"{mirror}/{end}" for end in dict.fromkeys(paths))
    elif is_repository(mirror):
        yield mirror
    else:
        yield from _in_directory(mirror, list_addresses(url), names)


def _names(url: str, path: str) -> dict[str, str]:
    """Return possible names of a repository without owner, by lower-case name."""
    names = [owner_and_name(address)[1] for address in list_addresses(url)]
    # Of names that differ in case only, the one in the URL counts.
    return {name.lower(): name for name in (os.path.basename(path), *reversed(names)) if name}


def _referenced(base: str, path: str, names: Sequence[str]) -> Iterator[str]:
    """Yield the submodule's work tree in a clone of PyTorch, or its git directories."""
    work_tree = os.path.join(base, path) if path else base
    if is_repository(work_tree):
        yield work_tree
    elif names:
        inside = os.path.join(*(part for name in names for part in ("modules", name)))
        for directory in (os.path.join(base, ".git", inside), os.path.join(base, inside)):
            if is_repository(directory):
                yield directory


def _in_directory(directory: str, addresses: Sequence[str], names: Container[str]) -> Iterator[str]:
    """Yield the clones of a directory with these names, those of the right owner first.

    A clone with another owner may be a fork that has the commit.
    """
    owners = {owner_and_name(address)[0].lower() for address in addresses}
    found = []
    for path in _entries(directory):
        owner, name = _plain(os.path.relpath(path, directory))
        if name in names:
            rank = 0 if owner in owners else 1 if not owner else 2
            if is_repository(path):
                found.append((rank, path))
    yield from (path for _, path in sorted(found))


def _entries(directory: str) -> Iterator[str]:
    """Yield the paths in a directory, and in its subdirectories that are no clones."""
    for entry in os.scandir(directory):
        yield entry.path
        if entry.is_dir() and not is_repository(entry.path):
            try:
                yield from (inner.path for inner in os.scandir(entry.path))
            except PermissionError:
                continue


def _plain(name: str) -> tuple[str, str]:
    """Split OWNER+NAME, OWNER+NAME/*, OWNER/NAME or NAME into owner and name, in lower case."""
    top = name.partition("/")[0]
    name = top if "+" in top else name
    owner, _, rest = name.removesuffix(".git").replace("+", "/").rpartition("/")
    return owner.lower(), rest.lower()
