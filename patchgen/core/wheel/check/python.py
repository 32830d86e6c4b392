"""Rows about Python: the interpreter that torch is built for, and the packages of its setup.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.version import Version

from patchgen import __version__
from patchgen.core.patch.limits import EXIT, plain
from patchgen.core.wheel import sbom
from patchgen.core.wheel.check.configure import BLAS
from patchgen.core.wheel.check.site import which
from patchgen.core.wheel.check.tools import relock
from patchgen.errors import ToolError
from patchgen.system.checks import Check
from patchgen.system.paths import describe

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from patchgen.core.wheel.check.facts import Facts
    from patchgen.core.wheel.check.tools import Tools

_ALWAYS = ("setuptools", "wheel")
_CRASH = (
    "{torch} ends in a segmentation fault (exit code 139) or an abort (134) at the exit of every "
    "process that has run a backward pass, after all is done, and so does the official wheel"
)
_PROGRAMS = {"python", EXIT, "gcc", "gcc with CUDA", "cuda", "cmake", BLAS}
_IN_PYTHON = {"dataclasses": "3.7"}  # from which version on a package comes with Python
_IF_LOCKED = ("mkl",)  # a library: a build can do without, and finds only that of its environment
_WITHOUT = {"numpy": "torch is built without from_numpy() and numpy()"}


def check_interpreter(facts: Facts) -> list[Check]:
    """Checks the interpreter and its packages."""
    return rows(facts.tools)


def check_tool(_: Facts) -> Iterator[Check]:
    """Checks what `build` itself imports."""
    problems = []
    try:
        sbom.require()
    except ToolError as error:
        problems.append(str(error))
    yield Check("switchml-patch", tuple(problems), __version__)


def rows(tools: Tools) -> list[Check]:
    """Rows about the interpreter and its packages."""
    limits = tools.limits
    others = {*_PROGRAMS, *_IF_LOCKED, *_ALWAYS}
    names = (*_ALWAYS, *(name for name in limits.specifiers if name not in others))
    if tools.environment:
        return _locked(tools, (*names, *filter(tools.locked, _IF_LOCKED)))
    name = tools.site.python or "python3"
    path = which(name, tools.environ)  # a name with a slash is relative to the process's directory
    if path is None:
        return [Check("Python", (f"--python {describe(name)}: no such program; name another",))]
    try:
        found = tools.interpreter(tools.site.path(path), names)
    except ToolError as error:
        return [Check("Python", (str(error),))]
    advice = "name another with --python"
    wrong = limits.problems("Python", found.version, advice, "python")
    if not found.has_header:
        install = "install the headers (Debian: python3-dev, RHEL: python3-devel)"
        wrong += (f"no {describe(found.header)}; {install}",)
    install = f"run: {describe(path)} -m pip install"
    return [
        Check("Python", wrong, f"{found.version}, {describe(path)}"),
        *_exit(tools, found.version, advice),
        *packages(tools, found.packages, _outside(names, found.version), install),
    ]


def _locked(tools: Tools, names: Sequence[str]) -> list[Check]:
    version = tools.locked("python")
    if version is None:
        if tools.environment and not tools.environment.packages:
            return []  # the row about the lock says what is wrong
        put = relock(f"put python{tools.limits.text('python')}")
        return [Check("Python", (f"not in the lock; {put}",))]
    wrong = tools.limits.problems("Python", version, relock(), "python")
    found = {name: tools.locked(name) for name in names}
    there = {name: version for name, version in found.items() if version}
    return [
        Check("Python", wrong, f"{version} of the lock"),
        *_exit(tools, version, relock()),
        *packages(tools, there, _outside(names, version), None),
    ]


def _outside(names: Sequence[str], version: str) -> list[str]:
    """Packages that do not come with a Python."""
    own = Version(plain(version))
    return [name for name in names if name not in _IN_PYTHON or own < Version(_IN_PYTHON[name])]


def _exit(tools: Tools, version: str, advice: str) -> Iterator[Check]:
    """Row about whether a process that has trained ends as it should."""
    wanted = tools.limits.text(EXIT)
    if not wanted:
        return
    crash = _CRASH.format(torch=tools.limits.of)
    problems = (
        crash,
        f"take Python {wanted}: {advice}; or build all the same: --accept crash-at-exit",
    )
    wrong = tools.limits.problems("Python", version, "", EXIT)
    yield Check("Python's exit", problems if wrong else (), version)


def packages(
    tools: Tools, found: Mapping[str, str], names: Sequence[str], install: str | None
) -> Iterator[Check]:
    """Rows about packages: one for those that the build needs, one for each other.

    Args:
        tools: the limits.
        found: versions by name.
        names: all packages that are looked for.
        install: command that installs one; None for those of a lock.
    """
    there = ", ".join(f"{name} {found[name]}" for name in names if name in found)
    wrong: list[str] = []
    for name in names:
        wanted = f"{name}{tools.limits.text(name)}"
        advice = f"{install} '{wanted}'" if install else relock(f"put {wanted}")
        if name in found:
            wrong += tools.limits.problems(name, found[name], advice)
        elif name in _WITHOUT:
            problem = f"not there: {_WITHOUT[name]}; {advice}"
            yield Check(f"{name} (optional)", (problem,), required=False)
        else:
            where = "not there" if install else "not in the lock"
            wrong.append(f"{name}: {where}; {advice}")
    yield Check("Python packages", tuple(wrong), there)
