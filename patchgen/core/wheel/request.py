"""Request for a build, its plan or its check."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field

from patchgen.core import recipes
from patchgen.core.patch.patches import Patch
from patchgen.core.patch.pins import Pin
from patchgen.core.patch.version import build_version
from patchgen.core.recipes import Limits
from patchgen.core.source.remotes import Remotes
from patchgen.core.wheel import caches, variables
from patchgen.errors import OptionsError
from patchgen.options import Options
from patchgen.system import machine, paths
from patchgen.system.native import cmake_variables

_LAUNCHERS = ("sccache", "ccache")
_CUDA = "cudatoolkit-dev"


@dataclass(frozen=True)
class BuildRequest:
    """Request for a build, its plan or its check. Paths are absolute, as `os` takes them."""

    patch: Patch
    """The patch of the build's options for its pin."""
    work: str
    """Directory of source, environment, objects and journal; may be missing."""
    output: str
    """Directory for the verified wheel."""
    python: str | None
    """Interpreter with all requirements, instead of an environment from the lock."""
    lock: str
    """Path of conda-lock.yml; if missing, it is made from `environment_file`."""
    environment_file: str
    """Path of the environment file."""
    environ: Mapping[str, str]
    """Environment of the user."""
    cache: str = ""
    """Cache directory of channels and packages; a check needs none."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Variables of the build from the command line."""
    remotes: Remotes = field(default_factory=Remotes)
    without: tuple[str, ...] = ()
    """Submodules to leave out."""
    jobs: int | None = None
    configs: tuple[str, ...] = ()
    """The switchml.cfg of each rank, for the verification."""
    accepted: tuple[str, ...] = ()
    """Keys of `check.ACCEPTABLE` that the user accepted."""

    @property
    def pin(self) -> Pin:
        """Pin of the source."""
        return self.patch.pin

    @property
    def options(self) -> Options:
        """Flags and homes of the client library."""
        return self.patch.options

    def validate(self) -> None:
        """Refuse values with which PyTorch's build would fail.

        Raises:
            OptionsError: says what to change.
        """
        if not recipes.takes(self.work):
            work = paths.printable(paths.from_native(self.work))
            raise OptionsError(f"--work {work}: {recipes.PATH_RULE}; give another directory")
        most = self.environ.get("MAX_JOBS") or "1"
        if self.jobs is None and not (most.isascii() and most.isdigit() and int(most)):
            raise OptionsError(f"MAX_JOBS={most}: not a positive integer")
        cmake_variables.refuse(self.given)
        if self.python is None and not os.path.exists(self.lock):
            self._require_lockable()

    def _require_lockable(self) -> None:
        """Refuse a missing lock that cannot be made."""
        directory = os.path.dirname(self.lock)
        wrong = None
        if not os.path.exists(self.environment_file):
            wrong = f"no environment file to make it from, {self.environment_file}"
        elif not os.path.isdir(directory):
            wrong = f"no directory {directory} to make it in"
        if wrong is not None:
            raise OptionsError(
                f"{self.lock}: there is no such lock, and {wrong}; make one with "
                "`switchml-patch env lock`, or give --python PYTHON to build with what is installed"
            )

    @property
    def source(self) -> str:
        """Directory of PyTorch's tree."""
        return os.path.join(self.work, "source")

    @property
    def prefix(self) -> str:
        """Prefix of the conda environment."""
        return os.path.join(self.work, "env")

    @property
    def interpreter(self) -> str:
        """Interpreter that PyTorch is built for."""
        return self.python or os.path.join(self.prefix, "bin", "python")

    @property
    def wheels(self) -> str:
        """Directory of the wheel before its verification."""
        return os.path.join(self.work, "wheel")

    @property
    def logs(self) -> str:
        """Directory of the build's log."""
        return os.path.join(self.work, "logs")

    @property
    def version(self) -> str:
        """Version of the wheel."""
        return build_version(self.pin, self.options)

    @property
    def recipe(self) -> recipes.Recipe:
        """Recipe of the pin."""
        return recipes.read(self.pin)

    @property
    def limits(self) -> Limits:
        """Versions with which the release builds."""
        return recipes.limit(self.pin)

    @property
    def given(self) -> dict[str, str]:
        """Environment of the user, with the variables from the command line."""
        return {**self.environ, **self.settings}

    @property
    def names_cuda(self) -> bool:
        """Whether the lock, or the environment file that it is made from, has CUDA.

        Reads the text, because a plan must not need a YAML parser.
        """
        if self.python is not None:
            return False
        known = self.lock if os.path.exists(self.lock) else self.environment_file
        try:
            with open(known, encoding="utf-8", errors="replace") as file:
                return any(_CUDA in line.partition("#")[0] for line in file)
        except OSError:  # reported where it is used
            return False

    @property
    def workers(self) -> int:
        """Number of compilers in parallel."""
        given = self.jobs or int(self.environ.get("MAX_JOBS") or 0)
        return given or machine.jobs(self.recipe.memory)

    @property
    def launcher(self) -> str | None:
        """Installed compiler cache, if any."""
        path = self.environ.get("PATH")
        return next((name for name in _LAUNCHERS if shutil.which(name, path=path)), None)

    @property
    def remote_cache(self) -> str | None:
        """User's setting of a remote compiler cache, which a build needs network for."""
        return caches.find_remote(self.given)

    def variables(self, prefix: str, *, cuda: bool) -> dict[str, str]:
        """Return the variables of the build; `prefix` is as the build sees it."""
        home = self.environ.get("CUDA_HOME") or (prefix if cuda else None)
        defaults = {"USE_CUDA": "1" if home else "0", **self.recipe.variables}
        if home:
            defaults["CUDA_HOME"] = home
        if self.launcher:
            defaults["CMAKE_C_COMPILER_LAUNCHER"] = self.launcher
            defaults["CMAKE_CXX_COMPILER_LAUNCHER"] = self.launcher
        if self.python is None:
            defaults["CMAKE_PREFIX_PATH"] = prefix
        return variables.resolve(defaults, self.environ, self.settings, conda=self.python is None)
