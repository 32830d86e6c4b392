"""Rows about the programs of a build: whether they exist, in a version that works."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator

from patchgen.core import recipes as versions
from patchgen.core.wheel.check.advice import lines, of_lock, relock
from patchgen.core.wheel.check.facts import Answer, Facts
from patchgen.errors import ToolError
from patchgen.system.checks import Check
from patchgen.system.interpreter import Interpreter
from patchgen.system.native import cmake_variables
from patchgen.system.paths import describe

_GIT = "2.29"
_MACROS = {  # clang defines those of gcc as well, so it is first
    "clang": ("__clang_major__", "__clang_minor__", "__clang_patchlevel__"),
    "gcc": ("__GNUC__", "__GNUC_MINOR__", "__GNUC_PATCHLEVEL__"),
}


def check_programs(facts: Facts) -> Iterator[Check]:
    """Check all programs; those of an environment only once it is locked."""
    if facts.has_packages:
        yield check_compilers(facts)
        yield check_cmake(facts)
        yield check_ninja(facts)
    yield check_git(facts)
    if facts.has_packages:
        yield check_nvcc(facts)


def check_compilers(facts: Facts) -> Check:
    """Check the C and the C++ compiler."""
    limits, limit = facts.limits, "gcc with CUDA" if facts.cuda else "gcc"
    if facts.locked and facts.locked.gcc:
        wrong = limits.problems("gcc", facts.locked.gcc, relock(), limit)
        return Check("compiler", wrong, of_lock(f"gcc {facts.locked.gcc}"))
    wanted = limits.text(limit)
    advice = f"install gcc{' ' + wanted if wanted else ''} and set CC and CXX to it"
    if facts.locked:  # which ignores CC and CXX
        advice = relock("put gxx_linux-64")
    answer = facts.compilers
    if answer.error:
        return Check("compiler", (*lines(answer.error), advice))
    try:
        kind, version = identify(answer.text)
    except ToolError as error:
        return Check("compiler", (*lines(error), advice))
    found = f"{kind} {version}, {describe(answer.program)}"
    if kind == "gcc":
        return Check("compiler", limits.problems("gcc", version, advice, limit), found)
    return Check("compiler", (), f"{found}; {limits.of} is known to build with gcc {wanted}")


def identify(macros: str) -> tuple[str, str]:
    """Return name and version of the compiler with these macros.

    Raises:
        ToolError: it is neither gcc nor clang.
    """
    values = dict(re.findall(r"^#define (__\w+__) (\d+)$", macros, re.MULTILINE))
    for name, parts in _MACROS.items():
        if parts[0] in values:
            return name, ".".join(values.get(part, "0") for part in parts)
    raise ToolError("the C++ compiler is neither gcc nor clang")


def check_cmake(facts: Facts) -> Check:
    """Check the cmake of the build."""
    locked = facts.find_locked("cmake")
    if locked:
        return Check("cmake", facts.limits.problems("cmake", locked, relock()), of_lock(locked))
    advice = _advise_pip(facts, f"cmake{facts.limits.text('cmake')}")
    return _judge("cmake", facts.cmake, facts.limits, advice)


def check_ninja(facts: Facts) -> Check:
    """Check the ninja of the build; make works as well, and is checked if it is named."""
    locked, advice = facts.find_locked("ninja"), _advise_pip(facts, "ninja")
    named = facts.request.given.get(cmake_variables.GENERATOR)
    if named == cmake_variables.MAKEFILES:
        make = facts.find("make")
        problem = f"not on PATH; install it, or unset {cmake_variables.GENERATOR}"
        return Check("make", () if make else (problem,), describe(make or ""))
    if locked:
        return Check("ninja", (), of_lock(locked))
    if facts.ninja is None and facts.find("make") and not named:
        problem = f"not on PATH; make builds as well, but slower and without progress; {advice}"
        return Check("ninja (optional)", (problem,), required=False)
    return _judge("ninja", facts.ninja, facts.limits, advice)


def _advise_pip(facts: Facts, package: str) -> str:
    """Return how to install a program that pip has."""
    if facts.locked:
        return relock(f"put {package}")
    if isinstance(facts.python, Interpreter):
        return facts.python.advise_pip([package], "put DIR/bin before PATH")
    return f"install {package}"


def check_git(facts: Facts) -> Check:
    """Check the git that fetches the source."""
    answer = facts.git
    if answer is None:
        return Check("git", ("not on PATH; install it",))
    if answer.error:
        return Check("git", lines(answer.error))
    version = versions.first(answer.text) or "?"
    old = versions.Limits("the source", {"git": f">={_GIT}"}).problems("git", version, "")
    advice = f"git {version}: fetching the source takes {_GIT} or later; install a later one"
    return Check("git", (advice,) if old else (), version)


def check_nvcc(facts: Facts) -> Check:
    """Check the compiler of CUDA."""
    if not facts.cuda:
        return Check("CUDA", (), "built without; CUDA_HOME=DIR builds with it")
    limits, answer = facts.limits, facts.nvcc
    advice = f"set CUDA_HOME to a CUDA {limits.text('cuda')}".rstrip()
    advice += ", or USE_CUDA=0 to build without"
    home, locked = facts.request.given.get("CUDA_HOME"), facts.find_locked("cudatoolkit-dev")
    if locked and not home and not (facts.locked and facts.locked.prefix):
        return Check("CUDA", limits.problems("CUDA", locked, relock(), "cuda"), of_lock(locked))
    if answer is None:
        path = os.path.join(os.path.abspath(home), "bin", "nvcc") if home else ""
        return Check("CUDA", (f"no {describe(path) if path else 'nvcc on PATH'}; {advice}",))
    return _judge("CUDA", answer, limits, advice, versions.nvcc)


def _judge(
    name: str,
    answer: Answer | None,
    limits: versions.Limits,
    advice: str,
    find_version: Callable[[str], str | None] = versions.first,
) -> Check:
    if answer is None:
        return Check(name, (f"not on PATH; {advice}",))
    if answer.error:
        return Check(name, (*lines(answer.error), advice))
    version, path = find_version(answer.text), describe(answer.program)
    if version is None:
        return Check(name, (f"{path}: does not say its version; {advice}",))
    return Check(name, limits.problems(name, version, advice, name.lower()), f"{version}, {path}")
