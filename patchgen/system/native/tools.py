"""Tools that compile a project, and the variables that they read, for its provenance."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping, Sequence

from patchgen.errors import ToolError
from patchgen.system.native import cache
from patchgen.system.process import LIMIT, run

COMPILERS = cache.COMPILERS
"""Variables that name compilers, and the programs that are taken without."""
_PROGRAMS = ("ar", "cmake", "ld")


def read_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of an environment that compilers and CMake read, without those of caches."""
    return {name: environ[name] for name in sorted(environ) if is_read(name) and environ[name]}


def is_read(name: str) -> bool:
    """True for a variable that compilers and CMake read, and that changes what they make."""
    if name.endswith("_COMPILER_LAUNCHER"):
        return False
    return name in cache.VARIABLES or name in COMPILERS or name.startswith("CMAKE_")


def describe_tools(environ: Mapping[str, str]) -> dict[str, object]:
    """Describes the compiler, by its path, and all tools by the first line of their version.

    Raises:
        ToolError: one does not run.
    """
    compiler = find_compiler("CXX", environ)
    programs = {"c++": ask_version(compiler, environ)}
    for name in _PROGRAMS:
        found = shutil.which(name, path=environ.get("PATH"))
        if found:
            programs[name] = ask_version([found], environ)
    return {"compiler": compiler[0], "programs": programs}


def find_compiler(variable: str, environ: Mapping[str, str]) -> list[str]:
    """The command in a variable, which may begin with a cache of objects, as `ccache g++`.

    Raises:
        ToolError: there is no such program.
    """
    given = environ.get(variable) or COMPILERS[variable]
    try:
        command = shlex.split(given)
    except ValueError:
        command = []
    if not command:
        raise ToolError(f"{variable}={given}: no such compiler; set {variable} to one")
    located = shutil.which(command[0], path=environ.get("PATH"))
    if located is None:
        raise ToolError(f"{command[0]}: no such compiler; install one or set {variable}")
    return [located, *command[1:]]


def ask_version(command: Sequence[str], environ: Mapping[str, str], line: int = 0) -> str:
    """A line of what a program says of its version; empty where it says nothing.

    Raises:
        ToolError: it does not run.
    """
    said = run([*command, "--version"], cwd="/", env=environ, limit=LIMIT)
    lines = said.decode(errors="replace").splitlines()
    return lines[line].strip() if lines else ""
