"""The conda environment of the build: the lock, what makes a prefix of it, and the prefix."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from patchgen.core.wheel import env, place
from patchgen.core.wheel.check.request import CheckRequest
from patchgen.errors import FileError, OptionsError, ToolError, TreeError
from patchgen.system import extras
from patchgen.system.paths import describe

if TYPE_CHECKING:
    from patchgen.core.wheel.env.lockfile import Lock  # imports yaml

_OTHERWISE = "or --python PYTHON builds without an environment"

_MAKE = f"run: switchml-patch env lock; {_OTHERWISE}"


@dataclass(frozen=True)
class LockedEnvironment:
    """Conda environment that a build will find."""

    problems: tuple[str, ...] = ()
    """Problems of the lock, and what to do about them, a line each."""
    found: str = ""
    """Description of the lock and of the prefix."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """Versions of the locked packages by name."""
    prefix: str | None = None
    """The prefix, where it was made from this lock to its end."""

    def version(self, name: str) -> str | None:
        """Version of a locked package; `_` and `-` are the same."""
        return self.packages.get(name) or self.packages.get(name.replace("_", "-"))

    @property
    def gcc(self) -> str | None:
        """The version of the locked compiler."""
        names = (name for name in self.packages if name.startswith(("gxx_linux", "gxx_impl_linux")))
        return next((self.packages[name] for name in names), None)


def find_environment(request: CheckRequest) -> LockedEnvironment:
    """Examines the lock, the libraries that `env create` uses, and `work`/env."""
    problems = []
    try:
        env.require()
    except ToolError as error:
        problems.append(f"{error}; {_OTHERWISE}")
    if request.lock is None:
        return LockedEnvironment((f"there is no lock; {_MAKE}",))
    path = request.path(request.lock)
    source = _source(request, path)
    if source is not None:
        found = f"{describe(path)} will be made from {describe(source)}"
        return LockedEnvironment(tuple(problems), found)
    if not os.path.exists(path):
        problems.append(f"{describe(path)}: No such file or directory{_remedy(request)}")
        return LockedEnvironment(tuple(problems))
    try:
        lock = _read(path)
    except ToolError as error:
        return LockedEnvironment(tuple(problems or [f"{error}; {_OTHERWISE}"]))
    except (FileError, OptionsError) as error:
        return LockedEnvironment((*problems, f"{error}; {_MAKE}"))
    machine = env.platform()
    if lock.platform != machine:
        problems.append(
            f"{describe(path)}: is for {lock.platform}, this machine is {machine}; "
            f"run: switchml-patch env lock --platform {machine}"
        )
    made = _find_prefix(lock, request)
    state = (
        f"in {describe(request.prefix)}" if made else f"will be made in {describe(request.prefix)}"
    )
    found = f"{len(lock.packages)} packages of {describe(path)}, {state}"
    return LockedEnvironment(
        tuple(problems),
        found,
        {package.name: package.version for package in lock.packages},
        made,
    )


def _source(request: CheckRequest, lock: str) -> str | None:
    """The environment file that a build makes the lock from; None where it makes none."""
    if request.environment is None or os.path.exists(lock):
        return None
    source = request.path(request.environment)
    makes = os.path.isfile(source) and os.path.isdir(os.path.dirname(lock))
    return source if makes else None


def _remedy(request: CheckRequest) -> str:
    """Advice where there is no lock, and none will be made."""
    if request.environment is None or os.path.isfile(request.path(request.environment)):
        return f"; {_MAKE}"
    source = describe(request.path(request.environment))
    return f", nor {source} to make it from; name a lock with --lock; {_OTHERWISE}"


def _read(path: str) -> Lock:
    """Reads the lock.

    Raises:
        ToolError: the library for YAML is missing.
        OptionsError: it is no lock that can be used.
        FileError: it cannot be read.
    """
    extras.require({"yaml": "PyYAML"})
    from patchgen.core.wheel.env import lockfile  # imports yaml

    return lockfile.read(path)


def _find_prefix(lock: Lock, request: CheckRequest) -> str | None:
    """The prefix, if it is whole and of the lock, by the path that is in its files.

    This process sees it there from then on.
    """
    from patchgen.core.wheel.env import marker

    if not os.path.isdir(request.prefix):
        return None
    try:
        found = marker.read(request.prefix)
    except (OSError, TreeError):
        return None
    there = place.find(request.path(request.work))
    named = there.path(request.prefix)
    if found is None or not found.whole or not found.serves(lock.identity, request.prefix, named):
        return None
    there.show()
    return named
