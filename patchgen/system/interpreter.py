"""Facts about a Python interpreter, which may be older than this one."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchgen.errors import OptionsError, ToolError
from patchgen.system import paths
from patchgen.system.payload import probe
from patchgen.system.pipes import Tail
from patchgen.system.process import (
    ERR,
    KEPT,
    LIMIT,
    OUT,
    CompletedRun,
    Program,
    stream,
)

if TYPE_CHECKING:
    from threading import Event

PLAIN = ("-EsB",)
"""Options of an interpreter: without the user's packages, and without writing bytecode."""

NO_PYTHON = "is no Python interpreter"
_ADVICE = "give the path of one, such as /usr/bin/python3"
_LONGEST = 300  # characters of a message


class NoInterpreter(ToolError):  # noqa: N818  # the name says it
    """The program is no Python interpreter, or does not work."""


@dataclass(frozen=True)
class Interpreter:
    """Answers of an interpreter, and how its process ended."""

    path: str
    """Path by which it was started."""
    executable: str
    version: str
    implementation: str
    platform: str
    tag: str
    abi_flags: str
    soabi: str | None
    """Tag in the names of extension modules, such as cpython-39-x86_64-linux-gnu."""
    suffix: str | None
    include: str
    has_header: bool
    """Whether Python.h exists."""
    purelib: str
    user: str | None
    """Directory of the user's packages; None if the interpreter ignores them."""
    pip: str
    """State of its pip, one of the probe's."""
    found: Mapping[str, Any]
    """Answers by step of the probe."""
    problems: Mapping[str, str]
    """Why a step has no answer, by step."""
    ended: CompletedRun

    @property
    def packages(self) -> Mapping[str, str]:
        """Versions by name, of those requested packages that are installed."""
        versions: Mapping[str, str] = self.found.get(probe.PACKAGES, {})
        return versions

    @property
    def header(self) -> str:
        """Path of Python.h, even if it is missing."""
        return os.path.join(self.include, "Python.h")

    @property
    def name(self) -> str:
        """Path for messages."""
        return paths.describe(self.path)

    def advise_pip(self, packages: Sequence[str], use: str) -> str:
        """Return the commands that install packages for it, as `advise_pip` does."""
        return advise_pip(self.name, packages, self.pip, use)


def locate(name: str) -> str:
    """Return the absolute path of an interpreter, given by path or by name on PATH.

    Symbolic links are kept, since a virtual environment depends on them.

    Raises:
        OptionsError: there is no such interpreter.
    """
    found = shutil.which(name)
    if found is None:
        inner = os.path.join(name, "bin", "python")
        hint = inner if os.path.exists(inner) else "the path of a python"
        raise OptionsError(f"{name}: no such interpreter; give {hint}")
    return os.path.abspath(found)


def advise_pip(python: str, packages: Sequence[str], pip: str, use: str) -> str:
    """Return the commands that install packages for an interpreter.

    Args:
        python: path of the interpreter.
        packages: requirements, as pip takes them.
        pip: state of the interpreter's pip, one of the probe's.
        use: how to use a virtual environment in DIR, which is needed if pip is managed.
    """
    install = shlex.join(["-m", "pip", "install", *packages])
    own = shlex.quote(python)
    if pip == probe.MANAGED:
        make = f"{own} -m venv --system-site-packages DIR && DIR/bin/python {install}"
        return f"the system manages the packages of {own}, so run: {make}; then {use}"
    first = f"{own} -m ensurepip && " if pip == probe.MISSING else ""
    return f"run: {first}{own} {install}"


def search_path(directory: str, environ: Mapping[str, str]) -> str:
    """Return PYTHONPATH with a directory in front."""
    rest = environ.get("PYTHONPATH")
    return os.pathsep.join([directory, *([rest] if rest else [])])


def ask(  # noqa: PLR0913  # all are independent
    path: str,
    environ: Mapping[str, str],
    *,
    packages: Sequence[str] = (),
    program: bytes = b"",
    flags: Sequence[str] = (),
    limit: float | None = None,
    stop: Event | None = None,
) -> Interpreter:
    """Ask an interpreter for facts, in one process.

    Args:
        path: path of the interpreter.
        environ: its whole environment.
        packages: packages whose versions are wanted.
        program: source to run after the probe, which may call the probe's `answer`.
        flags: options of the interpreter.
        limit: seconds for the process; None: a minute.
        stop: ends the process once it is set.

    Raises:
        NoInterpreter: the program gives no such answers.
    """
    call = f"\nmain({[*packages]!r})\n".encode("ascii")
    text = Path(probe.__file__).read_bytes() + call + program
    ended = _run(Program([path, *flags, "-"], "/", environ, text), limit or LIMIT, stop)
    found, problems = _read_answers(ended)
    if probe.SELF not in found:
        name, reason = paths.describe(path), _last_words(ended)
        raise NoInterpreter(f"{name}: {NO_PYTHON} ({reason}); {_ADVICE}")
    return Interpreter(path=path, **found[probe.SELF], found=found, problems=problems, ended=ended)


def _run(program: Program, limit: float, stop: Event | None) -> CompletedRun:
    kept = {OUT: Tail(KEPT), ERR: Tail(KEPT)}
    code, killed = 0, ""
    try:
        code = stream(program, lambda name, line: kept[name](line), limit=limit, stop=stop)
    except ToolError as error:
        killed = error.reason
    return CompletedRun(code, bytes(kept[OUT]), bytes(kept[ERR]), killed)


def _read_answers(ended: CompletedRun) -> tuple[dict[str, Any], dict[str, str]]:
    found: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for line in ended.out.decode(errors="replace").splitlines():
        if line.startswith(probe.MARK):
            answer = json.loads(line[len(probe.MARK) :])
            step = answer["step"]
            problems.pop(step, None)
            if "found" in answer:
                found[step] = answer["found"]
            else:
                problems[step] = answer.get("error") or _last_words(ended)
    return found, problems


def _last_words(ended: CompletedRun) -> str:
    """Return how a program ended that gave no answer, with its last line."""
    return ": ".join([ended.how or "gave no answer", *ended.last_lines(1)])[:_LONGEST]
