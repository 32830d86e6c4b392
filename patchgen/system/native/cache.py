"""Cache of builds, by their inputs."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from patchgen import __version__
from patchgen.errors import FileError, file_errors
from patchgen.system import files, leftovers, outputs, signals

COMPILED = "run"
"""Directory of what was compiled, in the cache."""
_DIGITS = 16
COMPILERS = {"CC": "cc", "CXX": "c++"}
VARIABLES = {
    "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH",
    "LIBRARY_PATH", "LD_RUN_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX",
    "PKG_CONFIG_PATH", "PKG_CONFIG_LIBDIR", "PKG_CONFIG_SYSROOT_DIR",
}  # fmt: skip


@dataclass(frozen=True)
class Cached:
    """A directory of the cache."""

    path: str
    new: bool
    """True where it was made just now."""


def get_or_make(cache: str, kind: str, inputs: object, make: Callable[[str], None]) -> Cached:
    """Finds a directory of the cache, or makes it.

    A cache that cannot be written is refused before anything is made for it. One that has the
    directory is only read.

    Args:
        cache: the directory of the cache.
        kind: the first word of the directory's name.
        inputs: the inputs of the build, as JSON takes them.
        make: fills a new directory.

    Raises:
        FileError: the cache cannot be written.
        PatchgenError: of `make`.
    """
    name = files.digest([__version__, inputs])[:_DIGITS]
    cache = os.path.join(cache, COMPILED)
    path = os.path.join(cache, f"{kind}-{name}")
    if os.path.isdir(path):
        return Cached(path, new=False)
    outputs.make_cache(cache)
    if os.statvfs(cache).f_flag & os.ST_NOEXEC:
        raise FileError(
            f"{cache}: is mounted noexec, and what is built here has to run; name another cache "
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
        _rename(made, path)
    return Cached(path, new=True)


def _rename(source: str, target: str) -> None:
    try:
        os.rename(source, target)
    except OSError:
        if not os.path.isdir(target):  # else another run was quicker
            raise


def describe_compiler(environ: Mapping[str, str]) -> list[object]:
    """Lists the compilers of an environment, and the variables that they and CMake read."""
    found: list[object] = []
    for variable, name in COMPILERS.items():
        program = environ.get(variable) or name
        path = os.path.realpath(shutil.which(program, path=environ.get("PATH")) or program)
        found += [path, stamp(path)]
    names = sorted(name for name in environ if name in VARIABLES or name.startswith("CMAKE_"))
    # The linker finds the system's libraries, and every change of these renews its list.
    found.append(stamp("/etc/ld.so.cache"))
    return [*found, {name: environ[name] for name in names if environ[name]}]


def digest(*directories: str, only: tuple[str, ...] = ("",)) -> str:
    """Hash of the files in some directories, or of those whose names have certain ends."""
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
    """Size and time of a file; empty where there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return []
    return [status.st_size, status.st_mtime_ns]
