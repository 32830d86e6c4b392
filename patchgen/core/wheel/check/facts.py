"""Facts that the checks judge, found once."""

from __future__ import annotations

import contextlib
import glob
import os
import shlex
import shutil
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property

from patchgen.core.library import archive, homes
from patchgen.core.library.archive import Archive
from patchgen.core.recipes import BLAS, EXIT, Limits
from patchgen.core.wheel import toolchain, variables
from patchgen.core.wheel.check import configure
from patchgen.core.wheel.check.advice import reason
from patchgen.core.wheel.check.configure import Configuration
from patchgen.core.wheel.check.locked import LockedEnvironment, find_locked_environment
from patchgen.core.wheel.request import BuildRequest
from patchgen.errors import ToolError
from patchgen.options import Options
from patchgen.system import interpreter, threads
from patchgen.system.checks import Check
from patchgen.system.interpreter import Interpreter
from patchgen.system.native import tools
from patchgen.system.paths import describe, native
from patchgen.system.process import LIMIT, run

CRASH = "crash-at-exit"
ACCEPTABLE = {
    "no-blas": "BLAS and LAPACK",
    CRASH: "Python's exit",
}
"""Names of rows that a build refuses, by the key with which the user accepts them."""
_ALWAYS = ("setuptools", "wheel")
_PROGRAMS = {"python", EXIT, "gcc", "gcc with CUDA", "cuda", "cmake", BLAS}
_IF_LOCKED = "mkl"  # optional, and found only in the lock's environment
_OFF = {"0", "OFF", "NO", "FALSE", "N"}  # as PyTorch's setup.py reads a variable
_MAKE = (
    "make one with switchml-patch client build, name another place with --switchml-home, "
    "or take the simulator: switchml-patch simulator install -o DIR"
)


@dataclass(frozen=True)
class Client:
    """Client library in SWITCHML_HOME."""

    archive: Archive | None
    """None where it is missing or unusable."""
    problems: tuple[str, ...] = ()
    """Problems of the home and advice, a line each."""


@dataclass(frozen=True)
class Answer:
    """Answer of a program that was asked for its version."""

    program: str
    """Path of the program, or command of a compiler."""
    text: str = ""
    error: ToolError | None = None
    """Why there is no answer."""


@dataclass(frozen=True)
class Facts:
    """A requested build, and what is available for it.

    Programs are those of the environment, else those on PATH. Each is asked once, and None stands
    for the answer of a missing one.
    """

    request: BuildRequest
    client: Client
    locked: LockedEnvironment | None
    """Conda environment; None for a build with the user's interpreter."""
    limit: float = LIMIT
    """Seconds for an answer."""
    stop: threading.Event = field(default_factory=threading.Event, compare=False)
    """Once it is set, the programs that are running end, and no more start."""

    @property
    def limits(self) -> Limits:
        """Versions with which the release builds."""
        return self.request.limits

    @property
    def packages(self) -> list[str]:
        """Names of the Python packages that setup.py and torch import."""
        others = {*_PROGRAMS, _IF_LOCKED, *_ALWAYS}
        names = [*_ALWAYS, *(name for name in self.limits.specifiers if name not in others)]
        return [*names, _IF_LOCKED] if self.find_locked(_IF_LOCKED) else names

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
    def prefix(self) -> str | None:
        """Prefix of the environment, if it is complete."""
        return self.locked.prefix if self.locked else None

    @property
    def cuda(self) -> bool:
        """Whether the build uses CUDA."""
        given = self.request.given
        if given.get("USE_CUDA"):
            return given["USE_CUDA"].upper() not in _OFF
        if given.get("CUDA_HOME") or self.find_locked("cudatoolkit-dev"):
            return True
        return self.locked is not None and not self.has_packages and self.request.names_cuda

    @cached_property
    def settings(self) -> Mapping[str, str]:
        """Variables of the build."""
        defaults = {"CMAKE_PREFIX_PATH": self.prefix} if self.prefix else {}
        conda = self.locked is not None
        return variables.resolve(defaults, self.request.given, {}, conda=conda)

    @cached_property
    def environ(self) -> Mapping[str, str]:
        """Whole environment of the build."""
        programs = os.path.join(self.prefix, "bin") if self.prefix else None
        return variables.make_environ(self.settings, self.request.given, programs)

    @property
    def activated(self) -> Mapping[str, str]:
        """Environment of the compiler, after the conda environment's activation scripts.

        Raises:
            ToolError: a script failed.
        """
        if not self.prefix:
            return self.environ
        command = shlex.join(self.find_compiler())
        return {
            **toolchain.activated(self.prefix, {"CXX": command, **self.environ}),
            **self.settings,
        }

    @property
    def has_compiler(self) -> bool:
        """Whether the C++ compiler of the build is installed."""
        try:
            return self.has_packages and bool(self.find_compiler())
        except ToolError:
            return False

    @cached_property
    def compilers(self) -> Answer:
        """Macros of the C++ compiler; empty for one of a lock. No C compiler is an error."""
        if self.conda or not self.has_packages:
            return Answer("")
        try:
            command = self.find_compiler()
            answer = self.ask([*command, "-dM", "-E", "-x", "c++", "-"])
            tools.find_compiler("CC", self.environ)
        except ToolError as error:
            return Answer("", error=error)
        return Answer(" ".join(command), answer)

    @cached_property
    def cmake(self) -> Answer | None:
        """Version of the cmake that PyTorch's setup.py takes: cmake3 first."""
        return self._ask_version(self.find("cmake3", "cmake"))

    @cached_property
    def ninja(self) -> Answer | None:
        """Version of ninja."""
        return self._ask_version(self.find("ninja"))

    @cached_property
    def git(self) -> Answer | None:
        """Version of git."""
        return self._ask_version(self.find("git"))

    @cached_property
    def nvcc(self) -> Answer | None:
        """Version of the nvcc of CUDA_HOME, else of PATH; None also without CUDA."""
        home = self.request.given.get("CUDA_HOME")
        if not self.cuda:
            return None
        if not home:
            return self._ask_version(self.find("nvcc"))
        path = os.path.join(os.path.abspath(home), "bin", "nvcc")
        return self._ask_version(path if os.access(path, os.X_OK) else None)

    @cached_property
    def python(self) -> Interpreter | ToolError | None:
        """Answers of the user's interpreter, started as in a build."""
        path = None if self.locked else self.find(self.request.python or "python3")
        if path is None:
            return None
        try:
            return interpreter.ask(
                os.path.abspath(path),  # relative to this process
                self.environ,
                packages=self.packages,
                flags=interpreter.PLAIN,
                stop=self.stop,
            )
        except ToolError as error:
            return error

    @cached_property
    def configured(self) -> Configuration | ToolError | None:
        """Answers of switchml.cmake, with the compiler if there is one; None without cmake."""
        if self.cmake is None:
            return None
        if self.cmake.error:  # a hanging cmake fails after a minute, not ten
            return self.cmake.error
        program = self.cmake.program
        return configure.run(self.request, program, self._cmake_options(program), self.ask)

    @property
    def configuration(self) -> Configuration | None:
        """Answers of switchml.cmake, if it gave any."""
        return None if isinstance(self.configured, ToolError) else self.configured

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

    def find(self, *names: str) -> str | None:
        """Return the path of the first of some programs that is on PATH."""
        path = self.environ.get("PATH", os.defpath)
        return next(filter(None, (shutil.which(name, path=path) for name in names)), None)

    def find_compiler(self) -> list[str]:
        """Return the command of the C++ compiler; empty if that of the lock is not yet installed.

        Raises:
            ToolError: there is no such program.
        """
        if self.conda:
            programs = os.path.join(glob.escape(self.prefix or os.devnull), "bin")
            return sorted(glob.glob(f"{programs}/*-linux-gnu-c++"))[:1]
        return tools.find_compiler("CXX", self.environ)

    def ask(
        self, command: Sequence[str], *, limit: float | None = None, activated: bool = False
    ) -> str:
        """Run a program, and return its output.

        `activated`: with the variables of the environment's activation scripts, for the compiler.

        Raises:
            ToolError: it failed, or takes longer than the limit.
        """
        environ = self.activated if activated else self.environ
        answer = run(command, env=environ, cwd="/", limit=limit or self.limit, stop=self.stop)
        return answer.decode(errors="replace")

    def _cmake_options(self, program: str) -> list[str]:
        if not self.has_compiler:  # nothing is compiled, so any program serves as make
            return ["-G", "Unix Makefiles", f"-DCMAKE_MAKE_PROGRAM={program}"]
        wanted = self.settings.get("USE_NINJA", "1").upper() not in _OFF
        ninja = ["-G", "Ninja"] if wanted and self.find("ninja") else []
        blas = ["-DBLAS=ON"] if self.locked is None and BLAS in self.limits.specifiers else []
        # PyTorch's setup.py passes these variables in the same way.
        values = self.settings.items()
        given = [f"-D{key}={value}" for key, value in values if key.startswith("CMAKE_")]
        return [*ninja, "-DCOMPILER=ON", *blas, *given]

    def _ask_version(self, program: str | None) -> Answer | None:
        if program is None:
            return None
        try:
            return Answer(program, self.ask([program, "--version"]))
        except ToolError as error:
            return Answer(program, error=error)


_ASKED = "configured", "compilers", "ninja", "git", "nvcc", "python"
"""Facts that are found in parallel; `configured` asks cmake first."""


def find_facts(request: BuildRequest, limit: float = LIMIT) -> Facts:
    """Ask all programs in parallel; one may take `limit` seconds.

    Raises:
        FileError: there is no space for a scratch directory.
    """
    locked = None if request.python else find_locked_environment(request)
    facts = Facts(request, find_client(request.options), locked, limit)
    with ThreadPoolExecutor(len(_ASKED)) as pool, contextlib.ExitStack() as ends:
        ends.callback(facts.stop.set)  # before the pool waits for its threads, so Ctrl-C ends all
        for ended in threads.as_completed([pool.submit(getattr, facts, name) for name in _ASKED]):
            ended.result()
    return facts


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
    return Client(found, tuple(wrong))
