"""Git objects, verified by their ids, and a store of them that needs no git."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass

from patchgen.errors import ToolError
from patchgen.system import files, paths

_ID_BYTES = 20


@dataclass(frozen=True)
class Entry:
    """A line of a tree: a file or another tree, or a submodule's commit."""

    name: str
    mode: str
    id: str


class Store:
    """A directory of objects, each in a file of its own. Whatever is not what it must be is absent.

    Several processes may use it at once.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def get(self, kind: str, name: str) -> bytes | None:
        """The content of an object, verified; None where it is not here.

        Args:
            kind: commit, tree or blob.
            name: its id.
        """
        try:
            with open(paths.encode(self._path(name)), "rb") as file:
                content = file.read()
        except OSError:
            return None
        return content if object_id(kind, content) == name else None

    def put(self, kind: str, name: str, content: bytes) -> None:
        """Keeps an object.

        Raises:
            ToolError: the content is not that of the id.
            OSError: it cannot be written.
        """
        if object_id(kind, content) != name:
            raise ToolError(f"{kind} {name}: what was fetched is {object_id(kind, content)}")
        path = paths.encode(self._path(name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        files.replace(path, content)

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name[:2], name[2:])


def object_id(kind: str, content: bytes) -> str:
    """The id under which git stores the content, 40 hexadecimal digits."""
    header = f"{kind} {len(content)}\0".encode("ascii")
    return hashlib.sha1(header + content, usedforsecurity=False).hexdigest()


def tree_of(commit: bytes) -> str:
    """The id of the tree of a commit, given by its content."""
    return commit.split(b"\n", 1)[0].split()[1].decode("ascii")


def entries(tree: bytes) -> list[Entry]:
    """The lines of a tree, given by its content."""
    found = []
    position = 0
    while position < len(tree):
        end = tree.index(b"\0", position)
        mode, _, name = tree[position:end].partition(b" ")
        position = end + 1 + _ID_BYTES
        identity = tree[end + 1 : position].hex()
        found.append(Entry(paths.decode(name), mode.decode("ascii"), identity))
    return found
