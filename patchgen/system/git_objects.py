"""Git's object format: ids, commits and trees."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from patchgen.system import paths

ABSENT = "0" * 40
_ID_BYTES = 20


class Entry(NamedTuple):
    """Entry of a tree: a file, a directory, or a submodule's commit."""

    name: str
    mode: str
    id: str

    @property
    def is_tree(self) -> bool:
        """Whether it is a directory."""
        return self.mode == "40000"


def object_id(kind: str, content: bytes) -> str:
    """Return the id of a blob, tree or commit: 40 hexadecimal digits."""
    header = b"%s %d\0" % (kind.encode("ascii"), len(content))
    return hashlib.sha1(header + content, usedforsecurity=False).hexdigest()


def blob_id(content: bytes) -> str:
    """Return the id of a file's content."""
    return object_id("blob", content)


def tree_of(commit: bytes) -> str:
    """Return the tree's id from the content of a commit."""
    return commit.split(b"\n", 1)[0].split()[1].decode("ascii")


def entries(tree: bytes) -> list[Entry]:
    """Parse the content of a tree."""
    found = []
    position = 0
    while position < len(tree):
        end = tree.index(b"\0", position)
        mode, _, name = tree[position:end].partition(b" ")
        position = end + 1 + _ID_BYTES
        identity = tree[end + 1 : position].hex()
        found.append(Entry(paths.decode(name), mode.decode("ascii"), identity))
    return found


def batch(names: Sequence[str], text: bytes) -> dict[str, bytes]:
    """Parse the output of `git cat-file --batch`: contents of existing objects by id."""
    found = {}
    for name in names:
        about, _, text = text.partition(b"\n")
        if not about.endswith(b" missing"):
            size = int(about.split()[2])
            found[name], text = text[:size], text[size + 1 :]
    return found
