"""Cache of builds, by their inputs."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from patchgen import __version__
from patchgen.errors import FileError, ToolError, file_errors
from patchgen.system import files, leftovers, outputs, signals
from patchgen.system.native import tools

_LOADER = "/etc/ld.so.cache"
COMPILED = "run"
"""Directory of compiled files in the cache."""
_DIGITS = 16


@dataclass(frozen=True)
class Cached:
    """A directory of the cache."""

    path: str
    new: bool
    """Whether it was made just now."""


def get_or_make(cache: str, kind: str, inputs: object, make: Callable[[str], None]) -> Cached:
    """Return a directory of the cache, or make it.

    An unwritable cache is refused before the work, but serves for directories that it has.

    `kind` is the first word of its name, and `inputs`, as JSON, decide about the rest. `make` fills
    a new directory.

    Raises:
        FileError: the cache cannot be written.
        PatchgenError: from `make`.
    """
    name = files.digest([__version__, inputs])[:_DIGITS]
    cache = os.path.join(cache, COMPILED)
    path = os.path.join(cache, f"{kind}-{name}")
    if os.path.isdir(path):
        return Cached(path, new=False)
    outputs.make_cache(cache)
    if os.statvfs(cache).f_flag & os.ST_NOEXEC:
        raise FileError(
            f"{cache}: is mounted noexec, but what is built there has to run; name another cache "
            "with --cache or XDG_CACHE_HOME"
        )
    with (
        signals.cleaning_up(),
        file_errors(),
        leftovers.owned(kind, cache, hidden=True) as draft,
    ):
        made = os.path.join(draft, kind)
        os.mkdir(made)
        make(made)
        outputs.publish(made, path)
    return Cached(path, new=True)


def describe_compiler(environ: Mapping[str, str]) -> list[object]:
    """Return stamps of the compilers, and the variables that they and CMake read."""
    found: list[object] = []
    for variable in tools.COMPILERS:
        with contextlib.suppress(ToolError):  # CMake refuses it
            command = tools.find_compiler(variable, environ)
            path = os.path.realpath(command[0])
            found += [path, stamp(path), *command[1:]]
    names = sorted(name for name in environ if tools.is_read(name) and name not in tools.COMPILERS)
    return [*found, {name: environ[name] for name in names if environ[name]}]


def list_libraries(names: Iterable[str]) -> list[str]:
    """Return what the dynamic linker knows of libraries, such as libglog.so.0 of glog.

    A program runs with another file of the same name, but not with libglog.so.1.
    """
    try:
        with open(_LOADER, "rb") as file:
            known = file.read()
    except OSError:
        return []
    wanted = b"|".join(re.escape(name.encode()) for name in names)
    found = re.findall(rb"(?<=[\0/])lib(?:%b)\.so\b[^\0/]*(?=\0)" % wanted, known)
    return sorted({name.decode(errors="replace") for name in found})


def digest(*directories: str, only: tuple[str, ...] = ("",)) -> str:
    """Return the hash of the files in directories, or of those with certain suffixes."""
    total = hashlib.sha256()
    for top in directories:
        for directory, _, names in sorted(os.walk(top)):
            for name in sorted(names):
                path = os.path.join(directory, name)
                if name.endswith(only) and not name.endswith(".pyc"):
                    held = files.sha256(path).encode()
                    total.update(os.fsencode(os.path.relpath(path, top)) + b"\0" + held)
    return total.hexdigest()


def stamp(path: str) -> list[int]:
    """Return size and time of a file; empty if it is missing."""
    try:
        status = os.stat(path)
    except OSError:
        return []
    return [status.st_size, status.st_mtime_ns]
