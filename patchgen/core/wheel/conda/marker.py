"""Marker file of a prefix that this tool makes: written first, and again when complete.

A prefix that is not complete is made anew, so no progress is recorded.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass

from patchgen.errors import TreeError
from patchgen.system import files, untrusted

# Beside the records of packages. Without .json, since conda reads every *.json there as a record.
NAME = os.path.join("conda-meta", "switchml-patch")


@dataclass(frozen=True)
class Marker:
    """What a prefix was made from."""

    lock: str
    """`Lock.identity`."""
    whole: bool = False
    """Whether the prefix is complete."""
    named: str | None = None
    """Path of the prefix in its files, if that is another one."""

    def serves(self, lock: str, prefix: str, named: str) -> bool:
        """Return whether the prefix is of this lock and has this path in its files."""
        return self.lock == lock and (self.named or prefix) == named


def read(prefix: str) -> Marker | None:
    """Return the marker of a prefix; None without one.

    Raises:
        TreeError: the marker is invalid.
        OSError: the marker cannot be read.
    """
    path = os.path.join(prefix, NAME)
    try:
        with open(path, "rb") as file:
            return Marker(**untrusted.parse_json(file.read()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise TreeError(f"{path}: cannot be understood; remove {prefix}") from error


def write(prefix: str, marker: Marker) -> None:
    """Replace the marker atomically.

    Raises:
        OSError: the old marker is kept.
    """
    path = os.path.join(prefix, NAME)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    files.replace(os.fsencode(path), json.dumps(asdict(marker), indent=2).encode() + b"\n")
