"""Marker of a prefix that is ours: a file that is written first, and when it is whole."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass

from patchgen.errors import TreeError
from patchgen.system import files

# Beside the records of the packages, without .json: conda takes every *.json there for a record.
NAME = os.path.join("conda-meta", "switchml-patch")


@dataclass(frozen=True)
class Marker:
    """Progress of making a prefix from a lock."""

    lock: str
    """Lock.identity."""
    linked: bool = False
    """True once all packages are in place."""
    scripts: tuple[str, ...] = ()
    """Packages whose post-link script has run."""
    whole: bool = False
    """True once nothing is left to do."""
    named: str | None = None
    """Path of the prefix that is in its files, where it is not that of the prefix itself."""

    def serves(self, lock: str, prefix: str, named: str) -> bool:
        """True where the prefix is of a lock, and has this path in its files."""
        return self.lock == lock and (self.named or prefix) == named


def read(prefix: str) -> Marker | None:
    """The marker of a prefix, or None.

    Raises:
        TreeError: it cannot be understood.
        OSError: it cannot be read.
    """
    path = os.path.join(prefix, NAME)
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
        return Marker(**{**data, "scripts": tuple(data["scripts"])})
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as error:
        raise TreeError(f"{path}: cannot be understood; remove {prefix}") from error


def write(prefix: str, marker: Marker) -> None:
    """Writes the marker at once.

    Raises:
        OSError: it is as it was.
    """
    path = os.path.join(prefix, NAME)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    files.replace(os.fsencode(path), json.dumps(asdict(marker), indent=2).encode() + b"\n")
