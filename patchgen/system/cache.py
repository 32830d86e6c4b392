"""What was built for a run, kept for the next one with the same inputs."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchgen import __version__
from patchgen.errors import file_errors
from patchgen.system import files, leftovers, outputs, signals

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_DIGITS = 16
_COMPILERS = {"CC": "cc", "CXX": "c++"}
_FLAGS = ("CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS")


@dataclass(frozen=True)
class Kept:
    """A directory of the cache."""

    path: str
    new: bool
    """True where it was made just now."""


def kept(cache: str, kind: str, inputs: object, make: Callable[[str], None]) -> Kept:
    """A directory of the cache; it is made where it is not there.

    A cache that cannot be written is refused before anything is made for it. One that has the
    directory is only read.

    Args:
        cache: the directory of all that is kept.
        kind: the first word of the directory's name.
        inputs: all that makes a difference, as JSON takes it.
        make: fills a new directory.

    Raises:
        FileError: the cache cannot be written.
        PatchgenError: of `make`.
    """
    name = hashlib.sha256(json.dumps([__version__, inputs]).encode()).hexdigest()[:_DIGITS]
    cache = os.path.join(cache, "run")
    path = os.path.join(cache, f"{kind}-{name}")
    if os.path.isdir(path):
        return Kept(path, new=False)
    outputs.try_directory(cache)
    with signals.cleaning_up(), file_errors():
        os.makedirs(cache, exist_ok=True)
        with leftovers.owned(kind, cache, hidden=True) as draft:
            made = os.path.join(draft, kind)
            os.mkdir(made)
            make(made)
            _rename(made, path)
    return Kept(path, new=True)


def _rename(source: str, target: str) -> None:
    try:
        os.rename(source, target)
    except OSError:
        if not os.path.isdir(target):  # else another run was quicker
            raise


def compiler(environ: Mapping[str, str]) -> list[str]:
    """What an environment says of the compiler: its path and its flags."""
    found = []
    for variable, name in _COMPILERS.items():
        program = environ.get(variable) or name
        path = shutil.which(program, path=environ.get("PATH"))
        found.append(os.path.realpath(path) if path else program)
    return [*found, *(environ.get(name, "") for name in _FLAGS)]


def digest(*directories: str, only: tuple[str, ...] = ("",)) -> str:
    """Of the files in some directories whose names end so: of all, where nothing is said."""
    seen = hashlib.sha256()
    for top in directories:
        for directory, _, names in sorted(os.walk(top)):
            for name in sorted(names):
                path = os.path.join(directory, name)
                if name.endswith(only) and not name.endswith(".pyc"):
                    held = files.sha256(path).encode()
                    seen.update(os.fsencode(os.path.relpath(path, top)) + b"\0" + held)
    return seen.hexdigest()


def stamp(path: str) -> list[int]:
    """What changes when a file is written anew; nothing where there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return []
    return [status.st_size, status.st_mtime_ns]
