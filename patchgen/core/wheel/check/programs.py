"""Rows about the programs of a build: there, and of a version that it builds with."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from patchgen.core.patch import limits as versions
from patchgen.core.wheel.check.site import lines, which
from patchgen.core.wheel.check.tools import relock
from patchgen.errors import ToolError
from patchgen.system.checks import Check
from patchgen.system.paths import describe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchgen.core.wheel.check.facts import Facts
    from patchgen.core.wheel.check.tools import Tools

_GIT = "2.29"
_MACROS = {  # clang has those of gcc as well
    "clang": ("__clang_major__", "__clang_minor__", "__clang_patchlevel__"),
    "gcc": ("__GNUC__", "__GNUC_MINOR__", "__GNUC_PATCHLEVEL__"),
}


def check_compiler(facts: Facts) -> Iterator[Check]:
    """Checks the C and the C++ compiler."""
    if facts.tools.has_packages:
        yield compiler(facts.tools)


def check_cmake(facts: Facts) -> Iterator[Check]:
    """Checks the cmake of the build."""
    if facts.tools.has_packages:
        yield cmake(facts.tools)


def check_ninja(facts: Facts) -> Iterator[Check]:
    """Checks the ninja of the build."""
    if facts.tools.has_packages:
        yield ninja(facts.tools)


def check_git(facts: Facts) -> Iterator[Check]:
    """Checks the git that fetches the source."""
    yield git(facts.tools)


def check_nvcc(facts: Facts) -> Iterator[Check]:
    """Checks the compiler of CUDA."""
    if facts.tools.has_packages:
        yield nvcc(facts.tools)


def compiler(tools: Tools) -> Check:
    """Row about the C and the C++ compiler."""
    limit = "gcc with CUDA" if tools.cuda else "gcc"
    if tools.locked_gcc:
        wrong = tools.limits.problems("gcc", tools.locked_gcc, relock(), limit)
        return Check("compiler", wrong, f"gcc {tools.locked_gcc} of the lock")
    wanted = tools.limits.text(limit)
    advice = f"install gcc{' ' + wanted if wanted else ''} and set CC and CXX to it"
    if tools.environment:  # in which CC and CXX do not count
        advice = relock("put gxx_linux-64")
    try:
        cxx = tools.compiler()
        if not cxx:
            return Check("compiler", (f"no c++ on PATH; {advice}",))
        kind, version = identify(tools.ask([*cxx, "-dM", "-E", "-x", "c++", "-"]))
        if not tools.compiler("CC"):
            return Check("compiler", (f"no C compiler on PATH; {advice}",))
    except ToolError as error:
        return Check("compiler", (*lines(error), advice))
    found = f"{kind} {version}, {describe(' '.join(cxx))}"
    if kind == "gcc":
        return Check("compiler", tools.limits.problems("gcc", version, advice, limit), found)
    return Check("compiler", (), f"{found}; {tools.limits.of} is known to build with gcc {wanted}")


def identify(macros: str) -> tuple[str, str]:
    """Name and version of the compiler that defines these macros.

    Raises:
        ToolError: it is neither gcc nor clang.
    """
    values = dict(re.findall(r"^#define (__\w+__) (\d+)$", macros, re.MULTILINE))
    for name, parts in _MACROS.items():
        if parts[0] in values:
            return name, ".".join(values.get(part, "0") for part in parts)
    raise ToolError("the C++ compiler is neither gcc nor clang")


def cmake(tools: Tools) -> Check:
    """Row about the cmake that PyTorch's setup.py takes: cmake3 first."""
    locked = tools.locked("cmake")
    if locked:
        wrong = tools.limits.problems("cmake", locked, relock())
        return Check("cmake", wrong, f"{locked} of the lock")
    advice = f"run: python3 -m pip install 'cmake{tools.limits.text('cmake')}'"
    path = tools.cmake
    return _program("cmake", path, tools, advice) if path else _missing("cmake", advice)


def ninja(tools: Tools) -> Check:
    """Row about the ninja that PyTorch's setup.py takes, or else make."""
    locked = tools.locked("ninja")
    if locked:
        return Check("ninja", (), f"{locked} of the lock")
    path = tools.ninja
    advice = "run: python3 -m pip install ninja"
    if path:
        return _program("ninja", path, tools, advice)
    if which("make", tools.environ):
        problem = f"not on PATH; make builds as well, but slower and without progress; {advice}"
        return Check("ninja (optional)", (problem,), required=False)
    return _missing("ninja", advice)


def git(tools: Tools) -> Check:
    """Row about the git that fetches the source."""
    path = which("git", tools.environ)
    if path is None:
        return _missing("git", "install it")
    try:
        version = versions.first(tools.ask([path, "--version"])) or "?"
    except ToolError as error:
        return Check("git", lines(error))
    limits = versions.Limits("the source", {"git": f">={_GIT}"})
    old = limits.problems("git", version, "")
    advice = f"git {version}: fetching the source takes {_GIT} or later; install a later one"
    return Check("git", (advice,) if old else (), version)


def nvcc(tools: Tools) -> Check:
    """Row about the compiler of CUDA."""
    if not tools.cuda:
        return Check("CUDA", (), "built without; CUDA_HOME=DIR builds with it")
    wanted = tools.limits.text("cuda")
    advice = f"set CUDA_HOME to a CUDA {wanted}".rstrip() + ", or USE_CUDA=0 to build without"
    home, locked = tools.site.environ.get("CUDA_HOME"), tools.locked("cudatoolkit-dev")
    if locked and not home and not tools.prefix:
        wrong = tools.limits.problems("CUDA", locked, relock(), "cuda")
        return Check("CUDA", wrong, f"{locked} of the lock")
    path = which("nvcc", tools.environ)
    if home:
        path = os.path.join(tools.site.path(home), "bin", "nvcc")
    if path is None or not os.access(path, os.X_OK):
        return Check("CUDA", (f"no {describe(path) if path else 'nvcc on PATH'}; {advice}",))
    try:
        version = versions.nvcc(tools.ask([path, "--version"]))
    except ToolError as error:
        return Check("CUDA", (*lines(error), advice))
    if version is None:
        return Check("CUDA", (f"{describe(path)}: does not say its version; {advice}",))
    wrong = tools.limits.problems("CUDA", version, advice, "cuda")
    return Check("CUDA", wrong, f"{version}, {describe(path)}")


def _missing(name: str, advice: str) -> Check:
    return Check(name, (f"not on PATH; {advice}",))


def _program(name: str, path: str, tools: Tools, advice: str) -> Check:
    try:
        version = versions.first(tools.ask([path, "--version"]))
    except ToolError as error:
        return Check(name, (*lines(error), advice))
    if version is None:
        return Check(name, (f"{describe(path)}: does not say its version; {advice}",))
    return Check(name, tools.limits.problems(name, version, advice), f"{version}, {describe(path)}")
