"""Programs that a build will run: those of the environment, else of PATH."""

from __future__ import annotations

import functools
import glob
import os
import shlex
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from patchgen.core.wheel import toolchain, variables
from patchgen.core.wheel.check.site import which
from patchgen.errors import ToolError
from patchgen.system import interpreter
from patchgen.system.process import LIMIT, NoAnswer, run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchgen.core.patch.limits import Limits
    from patchgen.core.wheel.check.environment import LockedEnvironment
    from patchgen.core.wheel.check.site import Site
    from patchgen.system.interpreter import Interpreter

_NAMES = {"CXX": ("c++", "g++"), "CC": ("cc", "gcc")}


def relock(do: str = "change it") -> str:
    """Advice about a package of the lock."""
    return f"{do} in the environment file, then run: switchml-patch env lock"


@dataclass(frozen=True)
class Tools:
    """Programs of a build, and a way to ask them."""

    site: Site
    limits: Limits
    environment: LockedEnvironment | None
    """Conda environment; None where the build is with `site.python`."""
    limit: float = LIMIT
    """Seconds that a program may take to answer."""
    _stop: threading.Event = field(default_factory=threading.Event, compare=False)
    _silent: set[str] = field(default_factory=set, compare=False)
    """Programs that did not answer: once is waited for each."""

    def stop(self) -> None:
        """Ends the programs that are being asked, and asks no more."""
        self._stop.set()

    @property
    def prefix(self) -> str | None:
        """The environment, where it is made."""
        return self.environment.prefix if self.environment else None

    @functools.cached_property
    def settings(self) -> Mapping[str, str]:
        """The variables of the build."""
        defaults = {"CMAKE_PREFIX_PATH": self.prefix} if self.prefix else {}
        return variables.resolve(
            defaults, self.site.environ, {}, conda=self.environment is not None
        )

    @functools.cached_property
    def environ(self) -> Mapping[str, str]:
        """Environment variables of the build."""
        programs = os.path.join(self.prefix, "bin") if self.prefix else None
        return variables.environment(self.settings, self.site.environ, programs)

    @property
    def activated(self) -> Mapping[str, str]:
        """Environment variables of the compiler, with those of the conda environment's scripts.

        Raises:
            ToolError: one of them failed.
        """
        if not self.prefix:
            return self.environ
        command = shlex.join(self.compiler())
        return {
            **toolchain.activated(self.prefix, {"CXX": command, **self.environ}),
            **self.settings,
        }

    @property
    def definitions(self) -> list[str]:
        """The arguments of cmake, as PyTorch's setup.py makes them of variables."""
        return [
            f"-D{name}={value}"
            for name, value in self.settings.items()
            if name.startswith("CMAKE_")
        ]

    @property
    def cmake(self) -> str | None:
        """The cmake that PyTorch's setup.py takes: cmake3 first."""
        return which("cmake3", self.environ) or which("cmake", self.environ)

    @property
    def ninja(self) -> str | None:
        """The ninja that it takes."""
        return which("ninja", self.environ)

    def locked(self, name: str) -> str | None:
        """The version of a package in the lock."""
        return self.environment.version(name) if self.environment else None

    @property
    def locked_gcc(self) -> str | None:
        """The version of the compiler in the lock."""
        return self.environment.gcc if self.environment else None

    @property
    def cuda(self) -> bool:
        """True where the build is with CUDA."""
        said = self.site.switch("USE_CUDA")
        if said is not None:
            return said
        return bool(self.site.environ.get("CUDA_HOME") or self.locked("cudatoolkit-dev"))

    def compiler(self, variable: str = "CXX") -> list[str]:
        """The command of a compiler; empty where there is none, or not yet.

        Args:
            variable: CXX or CC. It counts without an environment only.

        Raises:
            ToolError: the variable names no program.
        """
        names = _NAMES[variable]
        if self.locked_gcc:
            programs = os.path.join(glob.escape(self.prefix or os.devnull), "bin")
            return sorted(glob.glob(f"{programs}/*-linux-gnu-{names[0]}"))[:1]
        given = None if self.environment else self.site.environ.get(variable)
        if not given:
            return [path for path in (which(name, self.environ) for name in names) if path][:1]
        try:
            command = shlex.split(given)
        except ValueError:
            command = []
        if not command or not which(command[0], self.environ):
            raise ToolError(f"{variable}={given}: no such program; set {variable} to a compiler")
        return command

    @property
    def has_packages(self) -> bool:
        """False where the programs come with an environment that nothing is known of yet."""
        return self.environment is None or bool(self.environment.packages)

    @property
    def has_compiler(self) -> bool:
        """True where there is the C++ compiler of the build to ask."""
        if not self.has_packages:
            return False
        try:
            return bool(self.compiler())
        except ToolError:
            return False

    def interpreter(self, path: str, packages: Sequence[str]) -> Interpreter:
        """Asks an interpreter, as a build starts it.

        Raises:
            NoInterpreter: it is none, or does not answer.
        """
        return interpreter.ask(
            path, self.environ, packages=packages, flags=interpreter.PLAIN, stop=self._stop
        )

    def ask(
        self,
        command: Sequence[str],
        stdin: bytes = b"",
        *,
        limit: float | None = None,
        activated: bool = False,
    ) -> str:
        """Asks a program, and returns its output.

        Args:
            command: a program and its arguments.
            stdin: what it reads.
            limit: seconds that it may take; without, the limit of all.
            activated: it runs the compiler, with what the environment's own scripts set.

        Raises:
            ToolError: it failed or does not answer.
        """
        program = command[0]
        if program in self._silent or self._stop.is_set():
            raise ToolError(f"{program}: does not answer")
        environ = self.activated if activated else self.environ
        try:
            answer = run(
                command,
                env=environ,
                stdin=stdin,
                cwd="/",
                limit=limit or self.limit,
                stop=self._stop,
            )
        except NoAnswer:
            self._silent.add(program)
            raise
        return answer.decode(errors="replace")
