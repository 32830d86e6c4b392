"""Finding of a look, and the files of sys and proc that it reads."""

import os
from typing import NamedTuple

GOOD, DOUBTFUL, BAD, UNKNOWN = "ok", "doubtful", "bad", ""


class Finding(NamedTuple):
    """Finding: good, doubtful, bad or unknown, and words."""

    state: str
    words: str


def read(root: str, path: str) -> str:
    """Text of a file below a root; empty where it cannot be read."""
    try:
        with open(os.path.join(root, path), encoding="ascii", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
