"""The objects: PyTorch's setup.py, run in the environment of the build."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from patchgen.core.source import Source
from patchgen.core.wheel import setup_py, variables
from patchgen.core.wheel.session import Session
from patchgen.core.wheel.values import Configured, Environment, Objects, Patched
from patchgen.system import process
from patchgen.system.files import digest

# Where CMake installs to: files of what was on with other variables would come into the wheel.
_INSTALLED = tuple(
    f"torch/{name}" for name in ("bin", "cmake", "include", "lib", "lib64", "share", "test")
)
_VERSION = "torch/version.py"  # made by a step of the build that does not know when it is outdated


@dataclass(frozen=True)
class _Inputs:
    """Digests of all that the objects are made from, and of what decides which of them stay."""

    whole: str
    configured: Configured


def _digest_inputs(session: Session, source: Source, env: Environment, patch: Patched) -> _Inputs:
    request = session.request
    toolchain = {
        "commit": source.pin.commit,
        "toolchain": env.toolchain.identity,
        "lock": env.lock,
        "path": session.place.path(request.source),
    }
    held = {name: value for name, value in env.variables.items() if name not in variables.NEUTRAL}
    settings = {"variables": held, "version": request.version}
    return _Inputs(
        digest({**toolchain, **settings, "patch": asdict(patch)}),
        Configured(digest(toolchain), digest(held), request.version),
    )


def compile_objects(session: Session, source: Source, env: Environment, patch: Patched) -> Objects:
    """Runs setup.py build, which goes on with the objects that are there.

    Raises:
        ToolError: it failed; the message has the first error of the log, and what it means.
        FileError: the disk is full.
    """
    inputs = _digest_inputs(session, source, env, patch)
    there = os.path.isdir(os.path.join(session.request.source, "build"))
    found = session.journal.get(Objects, inputs.whole) if there else None
    if found is not None:
        return found
    session.begin("compile")
    session.journal.drop(Objects)
    _prepare(session, inputs.configured)
    objects = Objects(inputs.whole, setup_py.run_setup(session, source, env, ["build"]))
    session.journal.put(objects, inputs.whole)
    return objects


def _prepare(session: Session, now: Configured) -> None:
    """Makes the objects of an earlier run serve these inputs, or takes them away.

    PyTorch's setup.py configures once, and then never looks at its variables again.
    """
    source = session.request.source
    build = os.path.join(source, "build")
    before = session.journal.get(Configured)
    if before is None or before.toolchain != now.toolchain:
        _clean(source, ["."])
    elif before.variables != now.variables:
        _clean(source, [*_INSTALLED, _VERSION])
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(build, "CMakeCache.txt"))
    elif before.version != now.version:
        _clean(source, [_VERSION])
    session.journal.put(now, digest(asdict(now)))
    for name in os.listdir(build) if os.path.isdir(build) else []:
        if name.startswith(("lib.", "bdist.")):  # copies: what was removed since stays in them
            shutil.rmtree(os.path.join(build, name))


def _clean(source: str, paths: Sequence[str]) -> None:
    """Removes what git ignores there, which is what a build writes."""
    process.run(["git", "clean", "-q", "-f", "-d", "-X", "--", *paths], cwd=source, limit=None)
