"""The torch of an interpreter, and the variants of SwitchML in it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patchgen.core.torch import headers
from patchgen.core.torch.payload import torch_probe as probe
from patchgen.errors import ToolError
from patchgen.system import interpreter, paths
from patchgen.system.interpreter import Interpreter
from patchgen.system.native import cache
from patchgen.system.process import LIMIT

Report = Mapping[str, Any]

TORCH, GRAFT, PLUGIN = "torch", "graft", "plugin"
"""Variants of SwitchML in a torch: a patch, a graft, the plugin."""
IMPORT_LIMIT = 600.0
"""Seconds for the first import of a large torch, which reads gigabytes."""
LIBRARIES = ("libc10.so", "libtorch_cpu.so", "libtorch_python.so")
"""Libraries of torch that its extension modules link with."""
_DEBIAN = "/usr/lib/python3/"
_ADVICE_DEBIAN = "install it (Debian: libtorch-dev)"
_ADVICE = "install that torch again (pip has them in torch itself, conda in libtorch)"


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
    """Interpreter in the tag of wheels, such as cp311."""
    abi_tag: str = ""
    """ABI in the tag of wheels, such as cp37m."""
    python_version: str = ""
    platform: str = ""
    """Platform according to sysconfig, such as linux-x86_64."""
    suffix: str = ""
    """Suffix of extension modules."""
    pybind11: Mapping[str, str] = field(default_factory=dict)
    """Macros that extension modules must define, because pybind11 compares them."""
    package: str = ""
    """Version that pip reports, which may differ from torch's own; empty without one."""
    include_paths: tuple[str, ...] = ()
    """Directories of headers that torch.utils.cpp_extension names, if it can be imported."""

    @property
    def lib_dir(self) -> str:
        """Directory of libtorch_cpu.so."""
        return os.path.join(self.root, "lib")

    @property
    def stamps(self) -> list[object]:
        """Stamps of the libraries in LIBRARIES."""
        return [cache.stamp(os.path.join(self.lib_dir, name)) for name in LIBRARIES]

    @property
    def include_dirs(self) -> list[str]:
        """Directories of torch's headers."""
        return headers.locate(self.include_paths, self.root, self.python_include)

    @property
    def include_base(self) -> str:
        """Directory of ATen and c10, one of `include_dirs`."""
        directories = self.include_dirs
        return next(filter(headers.has_headers, directories), directories[0])

    def require_header(self, name: str, environ: Mapping[str, str]) -> str:
        """Return the path of one of torch's headers.

        The compiler, whose variables are in `environ`, finds headers of the torch's version only.

        Raises:
            ToolError: the header is missing, or the headers are another torch's.
            FileError: a header cannot be read.
        """
        directories, python = self.include_dirs, paths.describe(self.python)
        found = headers.find(name, directories)
        if found is None:
            advice = _ADVICE_DEBIAN if self.root.startswith(_DEBIAN) else _ADVICE
            raise ToolError(
                f"torch {self.version} of {python} has no headers: no {name} in "
                f"{', '.join(directories)}; {advice}"
            )
        preferred = headers.list_preferred(environ)
        for directory, version in headers.list_versions([*preferred, *directories]):
            if not headers.is_of(version, self.version):
                advice = (
                    _ADVICE if directory in directories else "take it out of CPATH and CXXFLAGS"
                )
                raise ToolError(
                    f"the torch of {python} is {self.version}, but the headers in "
                    f"{paths.describe(directory)} are those of torch {version}; {advice}"
                )
        return found


@dataclass(frozen=True)
class Support:
    """One variant in a torch: its report, or why it fails; neither where it is absent."""

    report: Report | None = None
    problem: str = ""


@dataclass(frozen=True)
class Installed:
    """Torch of an interpreter, and its support of SwitchML by variant."""

    interpreter: Interpreter
    torch: Torch | None
    """None where it is missing, or cannot be imported."""
    problem: str
    """Why torch cannot be imported, or empty."""
    patched: Support
    graft: Support
    plugin: Support
    wanted_graft: str | None
    """Path of the graft that the import hook loads."""
    library: str | None
    """File that defines the report function of a patched or grafted torch."""
    has_module: bool
    """Whether the module torch.distributed.switchml answered, even without a report."""

    @property
    def root(self) -> str | None:
        """Directory of torch, even if it cannot be imported."""
        directory: str | None = self.interpreter.found.get(probe.WHERE)
        return directory

    @property
    def is_missing(self) -> bool:
        """Whether the interpreter finds no torch."""
        return self.root is None and probe.WHERE not in self.interpreter.problems

    @property
    def reports(self) -> dict[str, Report]:
        """Reports by variant, the preferred variant first."""
        parts = self._support.items()
        return {variant: part.report for variant, part in parts if part.report}

    @property
    def _support(self) -> dict[str, Support]:
        return {TORCH: self.patched, GRAFT: self.graft, PLUGIN: self.plugin}

    def problem_of(self, variant: str) -> str:
        """Return why a variant has no report; empty if it is absent."""
        return self.problem or self._support[variant].problem or self.graft.problem

    def require_report(self, variant: str, title: str) -> Report:
        """Return the report of a variant; `title` names it in messages.

        Raises:
            ToolError: there is no report.
        """
        report = self.reports.get(variant)
        if report is not None:
            return report
        problem = self.problem_of(variant)
        if problem:
            raise ToolError(f"{title}: cannot be loaded: {problem}")
        raise ToolError(f"{title}: is not loaded by {self.interpreter.name}")

    def require_gloo(self) -> Torch:
        """Return the torch, if it has Gloo.

        Raises:
            ToolError: torch cannot be imported, or has no Gloo.
        """
        name = self.interpreter.name
        if self.torch is None:
            raise ToolError(
                f"{name} cannot import torch: {self.problem}\n"
                "install a torch there, or name another python"
            )
        if not self.torch.gloo:
            raise ToolError(f"the torch {self.torch.version} of {name} has no Gloo process group")
        return self.torch


def name_client(*, simulator: bool) -> str:
    """Return how messages name the client library of a torch."""
    return "the simulator" if simulator else "the real client library"


def read_answers(answers: Interpreter) -> Installed:
    """Interpret the answers of an interpreter about the torch that it imports."""
    found, problems = answers.found, answers.problems
    hook = found.get(probe.HOOK) or {}
    grafted = Support(problem=hook.get("problem") or "")
    patched = _read_support(answers, probe.PATCH)
    if hook.get("loaded"):
        problem = grafted.problem or patched.problem
        grafted, patched = Support(patched.report, problem), Support()
    return Installed(
        interpreter=answers,
        torch=_read_torch(answers),
        problem=problems.get(probe.TORCH) or problems.get(probe.WHERE, ""),
        patched=patched,
        graft=grafted,
        plugin=_read_support(answers, probe.PLUGIN),
        wanted_graft=hook.get("wanted"),
        library=found.get(probe.LIBRARY),
        has_module=probe.PATCH in found,
    )


def _read_support(answers: Interpreter, module: str) -> Support:
    """Read the report of a module, or why the delegate library could not be opened."""
    report: Report | None = answers.found.get(module)
    if report and report.get("problem"):
        return Support(problem=report["problem"])
    return Support(report, answers.problems.get(module, ""))


def _read_torch(answers: Interpreter) -> Torch | None:
    if probe.TORCH not in answers.found:
        return None
    return Torch(
        python=answers.executable,
        python_include=answers.include,
        purelib=answers.purelib,
        tag=answers.tag,
        python_version=answers.version,
        abi_tag=f"{answers.tag}{answers.abi_flags}",
        platform=answers.platform,
        suffix=answers.suffix or "",
        package=answers.packages.get(TORCH, ""),
        include_paths=tuple(answers.found.get(probe.INCLUDE, ())),
        **answers.found[probe.TORCH],
    )


def probe_torch(
    python: str,
    environ: Mapping[str, str],
    *,
    headers: bool = True,
    limit: float = IMPORT_LIMIT,
) -> Installed:
    """Import the torch of an interpreter, and ask it for its support of SwitchML.

    The interpreter first answers without torch, so that a program that never answers is found
    early. Where nothing is compiled, it need not be asked for the directories of torch's headers,
    which may take another import of half a second.

    Raises:
        ToolError: the program cannot be started, or is no Python interpreter.
    """
    interpreter.ask(python, environ, limit=min(limit, LIMIT))
    program = _call(f"look_at_torch(answer, headers={headers})")
    answers = interpreter.ask(
        python, environ, packages=[TORCH], program=program, flags=("-B",), limit=limit
    )
    return read_answers(answers)


def has_hook(python: str, environ: Mapping[str, str]) -> bool:
    """Return whether an interpreter has the import hook of a graft.

    Raises:
        ToolError: the program cannot be started, or is no Python interpreter.
    """
    answers = interpreter.ask(python, environ, program=_call("look_before_import(answer)"))
    return answers.found.get(probe.HOOK) is not None


def _call(call: str) -> bytes:
    """Return the probe's source, and a call of one of its functions."""
    return Path(probe.__file__).read_bytes() + f"\n{call}\n".encode("ascii")
