"""A file by what it holds."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass

from patchgen.errors import file_errors

_BLOCK = 1 << 20  # bytes


@dataclass(frozen=True)
class Artifact:
    """The name of a file without its directory, its size in bytes and its SHA-256 in hex."""

    name: str
    size: int
    sha256: str


def measure(path: str) -> Artifact:
    """Reads a file.

    Raises:
        FileError: it cannot be read.
    """
    digest = hashlib.sha256()
    size = 0
    with file_errors(), open(path, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            size += len(block)
    return Artifact(os.path.basename(path), size, digest.hexdigest())
