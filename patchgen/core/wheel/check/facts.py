"""Facts that the checks judge, found once."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from patchgen.core.library import archive, homes
from patchgen.core.library.archive import Archive
from patchgen.core.recipes import BLAS, EXIT, Limits
from patchgen.core.wheel.check import configure
from patchgen.core.wheel.check.advice import reason
from patchgen.core.wheel.check.configure import Configuration
from patchgen.core.wheel.check.environment import LockedEnvironment
from patchgen.core.wheel.check.tools import Answer, Tools, uses_cuda
from patchgen.core.wheel.request import BuildRequest
from patchgen.errors import ToolError
from patchgen.options import Options
from patchgen.system import threads
from patchgen.system.checks import Check
from patchgen.system.interpreter import Interpreter
from patchgen.system.paths import describe, native
from patchgen.system.process import LIMIT

CRASH = "crash-at-exit"
ACCEPTABLE = {
    "no-blas": "BLAS and LAPACK",
    CRASH: "Python's exit",
}
"""Names of rows that a build refuses, by the key with which the user accepts them."""
_ALWAYS = ("setuptools", "wheel")
_PROGRAMS = {"python", EXIT, "gcc", "gcc with CUDA", "cuda", "cmake", BLAS}
_IF_LOCKED = "mkl"  # optional, and found only in the lock's environment


_MAKE = (
    "make one with switchml-patch client build, name another place with --switchml-home, "
    "or take the simulator: switchml-patch simulator install -o DIR"
)


@dataclass(frozen=True)
class Client:
    """Client library in SWITCHML_HOME."""

    archive: Archive | None
    """None where it is missing or unusable."""
    headers: bool
    """Whether the home has the headers."""
    problems: tuple[str, ...] = ()
    """Problems of the home and advice, a line each."""


@dataclass(frozen=True)
class Facts:
    """A requested build, and what is available for it. Programs of a lock are not run."""

    request: BuildRequest
    client: Client
    locked: LockedEnvironment | None = None
    """Conda environment; None for a build with the user's interpreter."""
    has_compiler: bool = False
    """Whether the C++ compiler of the build is installed."""
    has_make: bool = False
    compilers: Answer | None = None
    """Macros of the C++ compiler."""
    cmake: Answer | None = None
    ninja: Answer | None = None
    git: Answer | None = None
    nvcc: Answer | None = None
    interpreter: str | None = None
    """Path of the user's interpreter; None if there is no such program."""
    python: Interpreter | ToolError | None = None
    """Answers of the user's interpreter."""
    configured: Configuration | ToolError | None = None
    """Answers of switchml.cmake; None without cmake."""

    @property
    def limits(self) -> Limits:
        """Versions with which the release builds."""
        return self.request.limits

    @property
    def configuration(self) -> Configuration | None:
        """Answers of switchml.cmake, if it gave any."""
        return None if isinstance(self.configured, ToolError) else self.configured

    @property
    def simulator(self) -> bool:
        """Whether the client library is the simulator."""
        return self.client.archive is not None and self.client.archive.simulator

    @property
    def has_packages(self) -> bool:
        """Whether programs are known; not before an environment is locked."""
        return self.locked is None or bool(self.locked.packages)

    @property
    def conda(self) -> bool:
        """Whether the compiler is of a conda environment, and searches only there."""
        return self.locked is not None and self.locked.gcc is not None

    @property
    def cuda(self) -> bool:
        """Whether the build uses CUDA."""
        return uses_cuda(self.request, self.locked)

    def accept(self, row: Check) -> Check:
        """Make a row optional if the user accepted its problem."""
        for name in self.request.accepted:
            if row.name == ACCEPTABLE[name] and not row.ok:
                found = ", ".join(filter(None, [row.found, f"accepted by --accept {name}"]))
                return replace(row, found=found, required=False)
        return row

    def find_locked(self, name: str) -> str | None:
        """Return the version of a package in the lock, if any."""
        return self.locked.version(name) if self.locked else None


def list_packages(limits: Limits, locked: LockedEnvironment | None) -> list[str]:
    """Return the names of the Python packages that setup.py and torch import."""
    others = {*_PROGRAMS, _IF_LOCKED, *_ALWAYS}
    names = [*_ALWAYS, *(name for name in limits.specifiers if name not in others)]
    return [*names, _IF_LOCKED] if locked and locked.version(_IF_LOCKED) else names


def find_facts(request: BuildRequest, limit: float = LIMIT) -> Facts:
    """Find all facts in parallel; a program may take `limit` seconds.

    Raises:
        FileError: there is no space for a scratch directory.
    """
    tools = Tools(request, limit)
    with ThreadPoolExecutor(len(_PROBES)) as pool, contextlib.ExitStack() as ends:
        ends.callback(tools.stop)  # before the pool waits for its threads, so Ctrl-C ends all
        tools.settings  # noqa: B018  # cached before several threads read it
        running = {name: pool.submit(probe, tools) for name, probe in _PROBES.items()}
        for ended in threads.as_completed(running.values()):
            ended.result()
        found: dict[str, Any] = {name: answer.result() for name, answer in running.items()}
    return Facts(request, **found)


def find_client(options: Options) -> Client:
    """Examine SWITCHML_HOME."""
    path = archive.path(options.switchml_home)
    header = f"{native(options.switchml_home)}/{homes.HEADER}"
    wrong = []
    if not os.path.isfile(header):
        wrong.append(f"no {describe(header)}; {_MAKE}")
    found = None
    try:
        found = archive.read(options.switchml_home)
    except FileNotFoundError:
        wrong.append(f"no {describe(path)}" + ("" if wrong else f"; {_MAKE}"))
    except OSError as error:
        wrong.append(f"{describe(path)}: {reason(error)}; it has to be a file that can be read")
    except archive.ArchiveError as error:
        wrong.append(f"{describe(path)}: {error.reason}; build the client library again")
    return Client(found, os.path.isfile(header), tuple(wrong))


def _ask_python(tools: Tools) -> Interpreter | ToolError | None:
    if tools.interpreter is None:
        return None
    packages = list_packages(tools.request.limits, None)
    return tools.ask_interpreter(os.path.abspath(tools.interpreter), packages)


_PROBES: Mapping[str, Callable[[Tools], object]] = {
    "configured": configure.run,
    "cmake": lambda tools: tools.ask_version(tools.cmake),
    "ninja": lambda tools: tools.ask_version(tools.find("ninja")),
    "git": lambda tools: tools.ask_version(tools.find("git")),
    "nvcc": lambda tools: tools.ask_version(tools.nvcc),
    "compilers": Tools.ask_compilers,
    "python": _ask_python,
    "interpreter": lambda tools: tools.interpreter,
    "client": lambda tools: find_client(tools.request.options),
    "locked": lambda tools: tools.locked,
    "has_compiler": lambda tools: tools.has_compiler,
    "has_make": lambda tools: tools.find("make") is not None,
}
"""Functions that find the facts, by field."""
