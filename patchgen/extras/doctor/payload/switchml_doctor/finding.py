"""Result of a check, and access to files of sys and proc."""

import os
from typing import NamedTuple

GOOD, DOUBTFUL, BAD, UNKNOWN = "ok", "doubtful", "bad", ""


class Finding(NamedTuple):
    """Result of one check: a status and its explanation."""

    state: str
    words: str


def read(root: str, path: str) -> str:
    """Return the text of a file below a root; empty if it cannot be read."""
    try:
        with open(os.path.join(root, path), encoding="ascii", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
