"""The conda environment of a build: its lock, the libraries that install it, its prefix."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from patchgen.core.wheel import conda, sandbox
from patchgen.core.wheel.request import BuildRequest
from patchgen.errors import FileError, OptionsError, ToolError, TreeError
from patchgen.system import dependencies
from patchgen.system.paths import describe

if TYPE_CHECKING:
    from patchgen.core.wheel.conda.lockfile import Lock  # imports yaml

_OTHERWISE = "or --python PYTHON builds without an environment"

_MAKE = f"run: switchml-patch env lock; {_OTHERWISE}"


@dataclass(frozen=True)
class LockedEnvironment:
    """Conda environment that a build will find."""

    problems: tuple[str, ...] = ()
    """Problems of the lock and advice, a line each."""
    found: str = ""
    """Description of lock and prefix."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """Versions of the locked packages by name."""
    prefix: str | None = None
    """Path of the prefix, if it is complete and made from this lock."""

    def version(self, name: str) -> str | None:
        """Return the version of a locked package; `_` and `-` are equivalent."""
        return self.packages.get(name) or self.packages.get(name.replace("_", "-"))

    @property
    def gcc(self) -> str | None:
        """Version of the locked compiler."""
        names = (name for name in self.packages if name.startswith(("gxx_linux", "gxx_impl_linux")))
        return next((self.packages[name] for name in names), None)


def find_locked_environment(request: BuildRequest) -> LockedEnvironment:
    """Examine the lock, the libraries that `env create` needs, and WORK/env."""
    problems = []
    try:
        conda.require()
    except ToolError as error:
        problems.append(f"{error}; {_OTHERWISE}")
    path, shown = request.lock, describe(request.lock)
    if not os.path.exists(path):
        source, found = describe(request.environment_file), ""
        missing = f"{shown}: No such file or directory"
        if not os.path.isfile(request.environment_file):
            otherwise = f"name a lock with --lock; {_OTHERWISE}"
            problems.append(f"{missing}, nor {source} to make it from; {otherwise}")
        elif not os.path.isdir(os.path.dirname(path)):
            problems.append(f"{missing}; {_MAKE}")
        else:
            found = f"{shown} will be made from {source}"
        return LockedEnvironment(tuple(problems), found)
    try:
        dependencies.require({"yaml": "PyYAML"})
        from patchgen.core.wheel.conda import lockfile  # imports yaml

        lock = lockfile.read(path)
    except ToolError as error:
        return LockedEnvironment(tuple(problems or [f"{error}; {_OTHERWISE}"]))
    except (FileError, OptionsError) as error:
        return LockedEnvironment((*problems, f"{error}; {_MAKE}"))
    machine = conda.platform()
    if lock.platform != machine:
        problems.append(
            f"{shown}: is for {lock.platform}, this machine is {machine}; "
            f"run: switchml-patch env lock --platform {machine}"
        )
    made, prefix = _find_prefix(lock, request), describe(request.prefix)
    state = f"in {prefix}" if made else f"will be made in {prefix}"
    found = f"{len(lock.packages)} packages of {shown}, {state}"
    return LockedEnvironment(
        tuple(problems),
        found,
        {package.name: package.version for package in lock.packages},
        made,
    )


def _find_prefix(lock: Lock, request: BuildRequest) -> str | None:
    """Return the prefix, if it is complete and of this lock, by the path in its files.

    Programs that this process starts find the prefix there.
    """
    from patchgen.core.wheel.conda import marker

    if not os.path.isdir(request.prefix):
        return None
    try:
        found = marker.read(request.prefix)
    except (OSError, TreeError):
        return None
    there = sandbox.find(request.work)
    named = there.path(request.prefix)
    if found is None or not found.whole or not found.serves(lock.identity, request.prefix, named):
        return None
    return there.reveal(request.prefix)
