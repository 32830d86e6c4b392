"""Request for a build: one frozen value."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field

from patchgen.core.patch import recipes
from patchgen.core.patch.pins import Pin
from patchgen.core.patch.version import build_version
from patchgen.core.source import Places
from patchgen.core.wheel import caches, variables
from patchgen.errors import OptionsError
from patchgen.options import Options
from patchgen.system import machine, paths

_LAUNCHERS = ("sccache", "ccache")


@dataclass(frozen=True)
class BuildRequest:
    """Request for one build. Paths are absolute, as `os` takes them."""

    pin: Pin
    options: Options
    work: str
    """Source, environment, objects and the record of what is done."""
    output: str
    """Directory for the verified wheel."""
    python: str | None
    """An interpreter with all that the build needs, instead of an environment from the lock."""
    lock: str
    """A conda-lock.yml. Where there is none, it is made from `environment`."""
    environment: str
    """An environment file."""
    cache: str
    """Cache directory of channels and packages."""
    environ: Mapping[str, str]
    """Environment of the user."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Variables of the build from the command line."""
    places: Places = field(default_factory=Places)
    without: tuple[str, ...] = ()
    """Submodules that the source is to go without."""
    jobs: int | None = None
    configs: tuple[str, ...] = ()
    """The switchml.cfg of each rank, for the verification."""
    accepted: tuple[str, ...] = ()
    """Missing things that the user accepted, of `check.ACCEPTABLE`."""

    def __post_init__(self) -> None:
        """Refuses what PyTorch's build would stumble over.

        Raises:
            OptionsError: with what to change.
        """
        if not recipes.takes(self.work):
            work = paths.printable(paths.from_native(self.work))
            raise OptionsError(f"--work {work}: {recipes.PATH_RULE}; give another directory")
        most = self.environ.get("MAX_JOBS") or "1"
        if self.jobs is None and not (most.isascii() and most.isdigit() and int(most)):
            raise OptionsError(f"MAX_JOBS={most}: not a positive integer")
        if self.python is None and not os.path.exists(self.lock):
            self._require_lockable()

    def _require_lockable(self) -> None:
        """Refuses a lock that cannot be made."""
        directory = os.path.dirname(self.lock)
        wrong = None
        if not os.path.exists(self.environment):
            wrong = f"no environment file to make it from, {self.environment}"
        elif not os.path.isdir(directory):
            wrong = f"no directory {directory} to make it in"
        if wrong is not None:
            raise OptionsError(
                f"{self.lock}: there is no such lock, and {wrong}; make one with "
                "`switchml-patch env lock`, or give --python PYTHON to build with what is installed"
            )

    @property
    def source(self) -> str:
        """The tree of PyTorch."""
        return os.path.join(self.work, "source")

    @property
    def prefix(self) -> str:
        """The environment."""
        return os.path.join(self.work, "env")

    @property
    def interpreter(self) -> str:
        """The interpreter that PyTorch is built for."""
        return self.python or os.path.join(self.prefix, "bin", "python")

    @property
    def wheels(self) -> str:
        """Directory of the wheel before it is delivered."""
        return os.path.join(self.work, "wheel")

    @property
    def logs(self) -> str:
        """The log of the build."""
        return os.path.join(self.work, "logs")

    @property
    def version(self) -> str:
        """Version of the wheel."""
        return build_version(self.pin, self.options)

    @property
    def recipe(self) -> recipes.Recipe:
        """Recipe of this pin."""
        return self.pin.recipe

    @property
    def workers(self) -> int:
        """Number of compilers that run at once."""
        given = self.jobs or int(self.environ.get("MAX_JOBS") or 0)
        return given or machine.jobs(self.recipe.memory)

    @property
    def launcher(self) -> str | None:
        """A cache of objects that is there."""
        path = self.environ.get("PATH")
        return next((name for name in _LAUNCHERS if shutil.which(name, path=path)), None)

    @property
    def remote_cache(self) -> str | None:
        """Setting of the user that names a server of objects, for which a build has a network."""
        return caches.find_remote({**self.environ, **self.settings})

    def variables(self, prefix: str, *, cuda: bool) -> dict[str, str]:
        """Environment variables of the build.

        Args:
            prefix: the environment, as the build sees it.
            cuda: it has CUDA.
        """
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
