"""Programs of a build: those of its environment, else those on PATH."""

from __future__ import annotations

import functools
import glob
import os
import shlex
import shutil
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from patchgen.core.wheel import toolchain, variables
from patchgen.core.wheel.check.environment import LockedEnvironment, find_environment
from patchgen.core.wheel.request import BuildRequest
from patchgen.errors import ToolError
from patchgen.system import interpreter
from patchgen.system.interpreter import Interpreter
from patchgen.system.process import LIMIT, run

_OFF = {"0", "OFF", "NO", "FALSE", "N"}  # as PyTorch's setup.py reads a variable
_NAMES = {"CXX": ("c++", "g++"), "CC": ("cc", "gcc")}


@dataclass(frozen=True)
class Answer:
    """Answer of a program that was asked for its version."""

    program: str
    """Path of the program, or command of a compiler."""
    text: str = ""
    error: ToolError | None = None
    """Why there is no answer."""


def uses_cuda(request: BuildRequest, locked: LockedEnvironment | None) -> bool:
    """Return whether the build uses CUDA."""
    setting = request.given.get("USE_CUDA")
    if setting:
        return setting.upper() not in _OFF
    return bool(request.given.get("CUDA_HOME") or (locked and locked.version("cudatoolkit-dev")))


@dataclass(frozen=True)
class Tools:
    """Programs of a build, and methods that ask them."""

    request: BuildRequest
    limit: float = LIMIT
    """Seconds for an answer."""
    _stop: threading.Event = field(default_factory=threading.Event, compare=False)

    def stop(self) -> None:
        """End the programs that are running, and start no more."""
        self._stop.set()

    @functools.cached_property
    def locked(self) -> LockedEnvironment | None:
        """Conda environment; None for a build with the user's interpreter."""
        return None if self.request.python else find_environment(self.request)

    @property
    def prefix(self) -> str | None:
        """Prefix of the environment, if it is complete."""
        return self.locked.prefix if self.locked else None

    @functools.cached_property
    def settings(self) -> Mapping[str, str]:
        """Variables of the build."""
        defaults = {"CMAKE_PREFIX_PATH": self.prefix} if self.prefix else {}
        conda = self.locked is not None
        return variables.resolve(defaults, self.request.given, {}, conda=conda)

    @functools.cached_property
    def environ(self) -> Mapping[str, str]:
        """Whole environment of the build."""
        programs = os.path.join(self.prefix, "bin") if self.prefix else None
        return variables.environment(self.settings, self.request.given, programs)

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

    def find(self, *names: str) -> str | None:
        """Return the path of the first of some programs that is on PATH."""
        path = self.environ.get("PATH", os.defpath)
        return next(filter(None, (shutil.which(name, path=path) for name in names)), None)

    @property
    def cmake(self) -> str | None:
        """Path of the cmake that PyTorch's setup.py takes: cmake3 first."""
        return self.find("cmake3", "cmake")

    @property
    def interpreter(self) -> str | None:
        """Path of the user's interpreter; a name with a slash is relative to this process."""
        return None if self.locked else self.find(self.request.python or "python3")

    @property
    def nvcc(self) -> str | None:
        """Path of the nvcc of CUDA_HOME, else of PATH."""
        if not uses_cuda(self.request, self.locked):
            return None
        home = self.request.given.get("CUDA_HOME")
        if not home:
            return self.find("nvcc")
        path = os.path.join(os.path.abspath(home), "bin", "nvcc")
        return path if os.access(path, os.X_OK) else None

    def find_compiler(self, variable: str = "CXX") -> list[str]:
        """Return the command of a compiler; empty if it is missing, or not yet installed.

        The variable CXX or CC is used only without an environment.

        Raises:
            ToolError: the variable names no program.
        """
        names = _NAMES[variable]
        if self.locked and self.locked.gcc:
            programs = os.path.join(glob.escape(self.prefix or os.devnull), "bin")
            return sorted(glob.glob(f"{programs}/*-linux-gnu-{names[0]}"))[:1]
        given = None if self.locked else self.request.given.get(variable)
        if not given:
            found = self.find(*names)
            return [found] if found else []
        try:
            command = shlex.split(given)
        except ValueError:
            command = []
        if not command or not self.find(command[0]):
            raise ToolError(f"{variable}={given}: no such program; set {variable} to a compiler")
        return command

    @property
    def has_compiler(self) -> bool:
        """Whether the C++ compiler of the build can be run."""
        if self.locked and not self.locked.packages:
            return False
        try:
            return bool(self.find_compiler())
        except ToolError:
            return False

    def ask_compilers(self) -> Answer | None:
        """Return the C++ compiler's macros; None if it is missing, or of a lock.

        A missing C compiler is an error.
        """
        if self.locked and (self.locked.gcc or not self.locked.packages):
            return None
        try:
            command = self.find_compiler()
            if not command:
                return None
            answer = self.ask([*command, "-dM", "-E", "-x", "c++", "-"])
            if not self.find_compiler("CC"):
                return Answer("", error=ToolError("no C compiler on PATH"))
        except ToolError as error:
            return Answer("", error=error)
        return Answer(" ".join(command), answer)

    def ask_version(self, program: str | None) -> Answer | None:
        """Return the version that a program reports; None without a program."""
        if program is None:
            return None
        try:
            return Answer(program, self.ask([program, "--version"]))
        except ToolError as error:
            return Answer(program, error=error)

    def ask_interpreter(self, path: str, packages: Sequence[str]) -> Interpreter | ToolError:
        """Return facts of an interpreter, started as in a build, or the error."""
        try:
            return interpreter.ask(
                path, self.environ, packages=packages, flags=interpreter.PLAIN, stop=self._stop
            )
        except ToolError as error:
            return error

    def ask(
        self, command: Sequence[str], *, limit: float | None = None, activated: bool = False
    ) -> str:
        """Run a program, and return its output.

        `activated`: with the variables of the environment's activation scripts, for the compiler.

        Raises:
            ToolError: it failed, or takes longer than the limit.
        """
        environ = self.activated if activated else self.environ
        answer = run(command, env=environ, cwd="/", limit=limit or self.limit, stop=self._stop)
        return answer.decode(errors="replace")
