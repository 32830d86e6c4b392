"""Rows about Python: the interpreter of the build, and the packages of setup.py."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from packaging.version import Version

from patchgen.core.recipes import EXIT, Limits, plain
from patchgen.core.wheel.check.advice import NOT_LOCKED, of_lock, relock
from patchgen.core.wheel.check.facts import Facts
from patchgen.errors import ToolError
from patchgen.system.checks import Check
from patchgen.system.interpreter import Interpreter
from patchgen.system.paths import describe

_CRASH = (
    "{torch} ends in a segmentation fault (exit code 139) or an abort (134) at the exit of every "
    "process that has run a backward pass, after all is done, and so does the official wheel"
)
_NAMED = "name it with --python DIR/bin/python"
_IN_PYTHON = {"dataclasses": "3.7"}  # first Python version with this package
_WITHOUT = {"numpy": "torch is built without from_numpy() and numpy()"}


def check_interpreter(facts: Facts) -> Iterable[Check]:
    """Check the interpreter and its packages."""
    limits = facts.limits
    if facts.locked:
        return _locked(facts)
    found = facts.python
    if found is None:
        name = describe(facts.request.python or "python3")
        return [Check("Python", (f"--python {name}: no such program; name another",))]
    if isinstance(found, ToolError):
        return [Check("Python", (str(found),))]
    advice = "name another with --python"
    wrong = limits.problems("Python", found.version, advice, "python")
    if not found.has_header:
        install = "install the headers (Debian: python3-dev, RHEL: python3-devel)"
        wrong += (f"no {describe(found.header)}; {install}",)
    return [
        Check("Python", wrong, f"{found.version}, {found.name}"),
        *_exit(limits, found.version, advice),
        *_check_packages(facts, found.version, found.packages, found),
    ]


def _locked(facts: Facts) -> Iterator[Check]:
    version = facts.find_locked("python")
    if version is None:
        if facts.has_packages:  # else the row about the lock has the problem
            put = relock(f"put python{facts.limits.text('python')}")
            yield Check("Python", (f"{NOT_LOCKED}; {put}",))
        return
    wrong = facts.limits.problems("Python", version, relock(), "python")
    found = {name: facts.find_locked(name) for name in facts.packages}
    there = {name: version for name, version in found.items() if version}
    yield Check("Python", wrong, of_lock(version))
    yield from _exit(facts.limits, version, relock())
    yield from _check_packages(facts, version, there, None)


def _exit(limits: Limits, version: str, advice: str) -> Iterator[Check]:
    """Yield the row about crashes at the exit of a process that has trained."""
    wanted = limits.text(EXIT)
    if not wanted:
        return
    crash = _CRASH.format(torch=limits.of)
    problems = (
        crash,
        f"take Python {wanted}: {advice}; or build all the same: --accept crash-at-exit",
    )
    wrong = limits.problems("Python", version, "", EXIT)
    yield Check("Python's exit", problems if wrong else (), version)


def _check_packages(
    facts: Facts, python: str, found: Mapping[str, str], own: Interpreter | None
) -> Iterator[Check]:
    """Yield a row for all required packages, and one for each optional package.

    `own` is the user's interpreter; None for the packages of a lock.
    """
    limits, version = facts.limits, Version(plain(python))
    names = [
        name
        for name in facts.packages
        if name not in _IN_PYTHON or version < Version(_IN_PYTHON[name])
    ]
    there = ", ".join(f"{name} {found[name]}" for name in names if name in found)
    wrong: list[str] = []
    for name in names:
        wanted = f"{name}{limits.text(name)}"
        advice = own.advise_pip([wanted], _NAMED) if own else relock(f"put {wanted}")
        if name in found:
            wrong += limits.problems(name, found[name], advice)
        elif name in _WITHOUT:
            problem = f"not there: {_WITHOUT[name]}; {advice}"
            yield Check(f"{name} (optional)", (problem,), required=False)
        else:
            where = "not there" if own else NOT_LOCKED
            wrong.append(f"{name}: {where}; {advice}")
    yield Check("Python packages", tuple(wrong), there)
