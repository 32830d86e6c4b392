"""A Python interpreter and its torch, as it describes them. It may be older than ours."""

from __future__ import annotations

import functools
import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchgen.errors import OptionsError, ToolError
from patchgen.payload import probe
from patchgen.system import paths
from patchgen.system.process import ERR, KEPT, LIMIT, OUT, Ended, Kept, NoAnswer, Program, stream

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from threading import Event

IMPORT_LIMIT = 600.0
"""Seconds for the first import of a large torch, which reads gigabytes."""

PLAIN = ("-EsB",)
"""Options of an interpreter: without the user's own packages, and without bytecode."""

_ADVICE = "give the path of one, such as /usr/bin/python3"
_LONGEST = 300  # characters of what a program said


class NoInterpreter(ToolError):  # noqa: N818  # that is what there is
    """A program that is no Python interpreter, or one that does not work."""


@dataclass(frozen=True)
class Torch:
    """An installed torch and the interpreter that imports it."""

    python: str
    version: str
    commit: str
    cuda: str | None
    cxx11_abi: bool
    gloo: bool
    root: str
    python_include: str
    purelib: str
    tag: str
    """Of the interpreter, as wheels name it, without the ABI's letters: cp311."""
    abi_tag: str = ""
    """Likewise, with them: cp37m."""
    python_version: str = ""
    platform: str = ""
    """As sysconfig names it: linux-x86_64."""
    suffix: str = ""  # of the files of extension modules
    pybind11: Mapping[str, str] = field(default_factory=dict)
    """What its extension modules must define, since pybind11 compares it."""

    @property
    def lib_dir(self) -> str:
        """Where libtorch_cpu.so is."""
        return os.path.join(self.root, "lib")

    @property
    def include_dirs(self) -> list[str]:
        """Where torch's headers are: in the package, or where a distribution puts them."""
        packaged = os.path.join(self.root, "include")
        base = packaged if os.path.isdir(os.path.join(packaged, "ATen")) else "/usr/include"
        return [base, os.path.join(base, "torch", "csrc", "api", "include")]


@dataclass(frozen=True)
class Interpreter:
    """What one said, up to what ended it."""

    path: str
    """As it was started."""
    executable: str
    version: str
    implementation: str
    platform: str
    tag: str
    abi_flags: str
    soabi: str | None
    """What the name of an extension module holds, as cpython-39-x86_64-linux-gnu."""
    suffix: str | None
    include: str
    has_header: bool
    """Whether Python.h is there."""
    purelib: str
    user: str | None
    """Where it finds packages of the user; None where it looks for none."""
    found: Mapping[str, Any]
    """What each step of the probe has found, by its name."""
    problems: Mapping[str, str]
    """Why a step has found nothing, in words, by its name."""
    ended: Ended

    @property
    def packages(self) -> Mapping[str, str]:
        """Version by name, of those that were asked for and are there."""
        versions: Mapping[str, str] = self.found.get(probe.PACKAGES, {})
        return versions

    @property
    def header(self) -> str:
        """The path of Python.h, whether it is there or not."""
        return os.path.join(self.include, "Python.h")

    @property
    def root(self) -> str | None:
        """The directory of torch, whether it can be imported or not."""
        directory: str | None = self.found.get(probe.WHERE)
        return directory

    @property
    def torch(self) -> Torch | None:
        """The torch that it imports, where it was asked for and could be imported."""
        if probe.TORCH not in self.found:
            return None
        return Torch(
            python=self.executable,
            python_include=self.include,
            purelib=self.purelib,
            tag=self.tag,
            python_version=self.version,
            abi_tag=f"{self.tag}{self.abi_flags}",
            platform=self.platform,
            suffix=self.suffix or "",
            **self.found[probe.TORCH],
        )

    def with_gloo(self) -> Torch:
        """The torch, which was asked for.

        Raises:
            ToolError: there is none, or none with Gloo.
        """
        torch, name = self.torch, _shown(self.path)
        if torch is None:
            raise ToolError(
                f"{name} cannot import torch: {self.problems[probe.TORCH]}\n"
                "install a torch there, or name another python"
            )
        if not torch.gloo:
            raise ToolError(f"the torch {torch.version} of {name} has no Gloo process group")
        return torch


def located(name: str) -> str:
    """The absolute path of an interpreter that is given by its path or by a name on PATH.

    Its links stay, which make a virtual environment.

    Raises:
        OptionsError: there is none.
    """
    found = shutil.which(name)
    if found is None:
        inner = os.path.join(name, "bin", "python")
        hint = inner if os.path.exists(inner) else "the path of a python"
        raise OptionsError(f"{name}: no such interpreter; give {hint}")
    return os.path.abspath(found)


def search_path(directory: str, environ: Mapping[str, str]) -> str:
    """PYTHONPATH as an environment has it, with a directory before it."""
    rest = environ.get("PYTHONPATH")
    return os.pathsep.join([directory, *([rest] if rest else [])])


def ask(  # noqa: PLR0913  # each is a part of the question, or of how it is asked
    path: str,
    environ: Mapping[str, str],
    *,
    packages: Sequence[str] = (),
    torch: bool = False,
    switchml: bool = False,
    flags: Sequence[str] = (),
    limit: float | None = None,
    stop: Event | None = None,
) -> Interpreter:
    """Asks an interpreter.

    Args:
        path: of the interpreter.
        environ: all of its environment.
        packages: whose versions are asked for.
        torch: whether torch is imported.
        switchml: whether what torch has of SwitchML is looked at.
        flags: options of the interpreter.
        limit: seconds that it may take; without, enough for what is asked.
        stop: ends it once it is set.

    Raises:
        NoInterpreter: it does not answer as one does.
    """
    if torch and limit is None:  # a program that never answers is found soon
        ask(path, environ, flags=flags, stop=stop)
    call = f"\nmain({[*packages]!r}, torch={torch!r}, switchml={switchml!r})\n"
    program = Program([path, *flags, "-"], "/", environ, _questions() + call.encode("ascii"))
    ended = _run(program, limit or (IMPORT_LIMIT if torch else LIMIT), stop)
    found, problems = _read(ended)
    if probe.SELF not in found:
        raise NoInterpreter(f"{_shown(path)}: is no Python interpreter ({_said(ended)}); {_ADVICE}")
    return Interpreter(path=path, **found[probe.SELF], found=found, problems=problems, ended=ended)


@functools.cache
def _questions() -> bytes:
    """The probe's text, which is asked for many times."""
    return Path(probe.__file__).read_bytes()


def _run(program: Program, limit: float, stop: Event | None) -> Ended:
    kept = {OUT: Kept(KEPT), ERR: Kept(KEPT)}
    code, killed = 0, ""
    try:
        code = stream(program, lambda name, line: kept[name](line), limit=limit, stop=stop)
    except NoAnswer:
        killed = f"no answer within {limit:g} s"
    except ToolError as error:
        killed = str(error).rpartition(": ")[2].partition(";")[0]
    return Ended(code, bytes(kept[OUT]), bytes(kept[ERR]), killed)


def _read(ended: Ended) -> tuple[dict[str, Any], dict[str, str]]:
    """What was found and what was not, by step."""
    found: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for line in ended.out.decode(errors="replace").splitlines():
        if line.startswith(probe.MARK):
            told = json.loads(line[len(probe.MARK) :])
            step = told["step"]
            problems.pop(step, None)
            if "found" in told:
                found[step] = told["found"]
            else:
                problems[step] = told.get("error") or _said(ended)
    return found, problems


def _said(ended: Ended) -> str:
    """How a program ended that did not say what it should have, with its last words."""
    return ": ".join([ended.how or "gave no answer", *ended.last_lines(1)])[:_LONGEST]


def _shown(path: str) -> str:
    return paths.printable(paths.from_native(path))
