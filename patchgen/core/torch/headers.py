"""Headers of an installed torch: where they are, and of which version."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from patchgen.errors import file_errors

_API = ("torch", "csrc", "api", "include")
_SYSTEM = "/usr/include"
_VERSIONS = ("torch/headeronly/version.h", "torch/csrc/api/include/torch/version.h")
_PARTS = ("MAJOR", "MINOR", "PATCH")
_NUMBER = re.compile(r"^#define TORCH_VERSION_(MAJOR|MINOR|PATCH)\s+(\d+)", re.MULTILINE)


def locate(named: Sequence[str], root: str, python_include: str) -> list[str]:
    """Return the directories of a torch's headers.

    Args:
        named: directories that torch itself names; empty if it could not be asked.
        root: directory of the package torch.
        python_include: directory of Python.h.
    """
    existing = [path for path in named if os.path.isdir(path)]
    if any(map(has_headers, existing)):
        return existing
    # Python.h is in a subdirectory of its prefix's headers, which may include torch's.
    guesses = [os.path.join(root, "include"), os.path.dirname(python_include), _SYSTEM]
    base = next(filter(has_headers, guesses), guesses[0])
    return [base, os.path.join(base, *_API)]


def list_preferred(environ: Mapping[str, str]) -> list[str]:
    """Return the directories of variables that compilers search before those of torch's headers."""
    flags = environ.get("CXXFLAGS", "").split()
    included = [flag[2:] for flag in flags if flag.startswith("-I")]
    return [path for path in [*included, *environ.get("CPATH", "").split(os.pathsep)] if path]


def has_headers(directory: str) -> bool:
    """Return whether a directory has ATen, c10 and torch."""
    return os.path.isdir(os.path.join(directory, "ATen"))


def find(name: str, directories: Iterable[str]) -> str | None:
    """Return the path of a header in the first of the directories that has it."""
    paths = (os.path.join(directory, name) for directory in directories)
    return next(filter(os.path.exists, paths), None)


def list_versions(directories: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield directories of headers, and the version in them as X.Y.Z.

    Old releases have no version in their headers.

    Raises:
        FileError: a header cannot be read.
    """
    for directory in directories:
        for name in _VERSIONS:
            path = os.path.join(directory, name)
            if os.path.exists(path):
                with file_errors(), open(path, encoding="utf-8", errors="replace") as file:
                    numbers = dict(_NUMBER.findall(file.read()))
                if len(numbers) == len(_PARTS):
                    yield directory, ".".join(numbers[part] for part in _PARTS)


def is_of(version: str, torch: str) -> bool:
    """Return whether headers of version X.Y.Z are those of a torch of this version.

    A release X.Y.Z may have headers of X.Y.0, because its version.txt may say so.
    """
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", torch)
    if found is None:
        return True
    *release, patch = version.split(".")
    return release == [found[1], found[2]] and patch in ("0", found[3] or "0")
