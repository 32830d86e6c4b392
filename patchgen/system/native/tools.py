"""Tools that compile a project, and the variables that they read, for its provenance."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterable, Mapping, Sequence

from patchgen.errors import ToolError
from patchgen.system.native import cmake_variables
from patchgen.system.process import LIMIT, run

COMPILERS = {"CC": ("cc", "gcc"), "CXX": ("c++", "g++")}
"""Variables of compilers, and their default programs, of which the first one there is taken."""
VARIABLES = {
    "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH",
    "LIBRARY_PATH", "LD_RUN_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX",
    "PKG_CONFIG", "PKG_CONFIG_PATH", "PKG_CONFIG_LIBDIR", "PKG_CONFIG_SYSROOT_DIR",
    "BOOST_ROOT", "Boost_ROOT", "BOOST_INCLUDEDIR", "BOOST_LIBRARYDIR",
}  # fmt: skip
ARCHIVES = "/etc/switchml-patch-archives"
"""File of an image, written by ci/image-packages."""
_PROGRAMS = ("ar", "cmake", "ld")


def read_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that compilers and CMake read, without those of caches."""
    return {name: environ[name] for name in sorted(environ) if is_read(name) and environ[name]}


def is_read(name: str) -> bool:
    """Return whether compilers and CMake read a variable, and their output depends on it."""
    if name in cmake_variables.DROPPED or name.endswith(("_COMPILER_LAUNCHER", "_LINKER_LAUNCHER")):
        return False
    return name in VARIABLES or name in COMPILERS or name.startswith("CMAKE_")


def describe_tools(environ: Mapping[str, str]) -> dict[str, object]:
    """Return the path of the compiler, and the first version line of all tools.

    Raises:
        ToolError: a tool does not run.
    """
    compiler = find_compiler("CXX", environ)
    programs = {"c++": ask_version(compiler, environ), **ask_versions(_PROGRAMS, environ)}
    return {"compiler": compiler[0], "programs": programs, "archives": read_archives()}


def read_archives() -> list[str]:
    """Return the URLs of the archives of an image's Debian packages; empty outside an image."""
    try:
        with open(ARCHIVES, encoding="utf-8") as file:
            return file.read().split()
    except OSError:
        return []


def find_compiler(variable: str, environ: Mapping[str, str]) -> list[str]:
    """Return the command in a variable, which may begin with a cache: `ccache g++`.

    Raises:
        ToolError: there is no such program.
    """
    path = environ.get("PATH")
    names = COMPILERS[variable]
    found = (name for name in names if shutil.which(name, path=path))
    given = environ.get(variable) or next(found, names[0])
    try:
        command = shlex.split(given)
    except ValueError:
        command = []
    if not command:
        raise ToolError(f"{variable}={given}: no such compiler; set {variable} to one")
    located = shutil.which(command[0], path=path)
    if located is None:
        raise ToolError(f"{command[0]}: no such compiler; install one or set {variable}")
    return [located, *command[1:]]


def ask_version(command: Sequence[str], environ: Mapping[str, str], line: int = 0) -> str:
    """Return a line of a program's --version; empty if it writes none.

    Raises:
        ToolError: it does not run.
    """
    output = run([*command, "--version"], cwd="/", env=environ, limit=LIMIT)
    lines = output.decode(errors="replace").splitlines()
    return lines[line].strip() if lines else ""


def ask_versions(names: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the first line of --version of those programs that are on PATH, by name.

    Raises:
        ToolError: one does not run.
    """
    found = {name: shutil.which(name, path=environ.get("PATH")) for name in names}
    return {name: ask_version([path], environ) for name, path in found.items() if path}
