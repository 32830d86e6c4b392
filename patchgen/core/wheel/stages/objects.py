"""Stage that compiles the objects, by PyTorch's setup.py."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict

from patchgen.core.wheel import setup_py, variables
from patchgen.core.wheel.values import Configured, Objects, Stage, WheelInputs
from patchgen.core.wheel.workspace import Making, Workspace
from patchgen.system import process
from patchgen.system.files import digest

# CMake installs to these. Files of other variables' features would come into the wheel.
_INSTALLED = tuple(
    f"torch/{name}" for name in ("bin", "cmake", "include", "lib", "lib64", "share", "test")
)
_VERSION = "torch/version.py"  # the build does not notice when this file is outdated


def _digest_inputs(inputs: WheelInputs) -> tuple[str, Configured]:
    """Return the digest of all inputs, and digests that decide which objects are kept."""
    request, source, env, patched = inputs.request, inputs.source, inputs.env, inputs.patched
    toolchain = {
        "commit": source.pin.commit,
        "left out": list(source.left_out),
        "toolchain": env.toolchain.identity,
        "lock": env.lock,
        "path": inputs.sandbox.path(request.source),
    }
    held = {name: value for name, value in env.variables.items() if name not in variables.NEUTRAL}
    patch = {"sha256": patched.patch.sha256, "client": [*patched.client]}
    settings = {"variables": held, "version": request.version}
    return (
        digest({**toolchain, **settings, "patch": patch}),
        Configured(digest(toolchain), digest(held), request.version),
    )


def compile_objects(workspace: Workspace, inputs: WheelInputs) -> Making[Objects]:
    """Run setup.py build, which continues with existing objects.

    Raises:
        ToolError: the build failed; the message has the first error of the log and its meaning.
        FileError: the disk is full.
    """
    whole, configured = _digest_inputs(inputs)
    there = os.path.isdir(os.path.join(workspace.request.source, "build"))
    found = workspace.journal.get(Objects, whole) if there else None
    if found is not None:
        return found
    yield Stage.COMPILE
    workspace.journal.drop(Objects)
    _prepare(workspace, configured)
    objects = Objects(whole, setup_py.run_setup(workspace, inputs, ["build"]))
    workspace.journal.put(objects, whole)
    return objects


def _prepare(workspace: Workspace, now: Configured) -> None:
    """Adapt the objects of an earlier build to these inputs, or remove them.

    PyTorch's setup.py reads its variables only when it configures for the first time.
    """
    source = workspace.request.source
    build = os.path.join(source, "build")
    before = workspace.journal.get(Configured)
    if before is None or before.toolchain != now.toolchain:
        _clean(source, ["."])
    elif before.variables != now.variables:
        _clean(source, [*_INSTALLED, _VERSION])
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(build, "CMakeCache.txt"))
    elif before.version != now.version:
        _clean(source, [_VERSION])
    workspace.journal.put(now, digest(asdict(now)))
    for name in os.listdir(build) if os.path.isdir(build) else []:
        if name.startswith(("lib.", "bdist.")):  # copies, which keep files that were removed since
            shutil.rmtree(os.path.join(build, name))


def _clean(source: str, paths: Sequence[str]) -> None:
    """Remove what git ignores, which is what a build writes."""
    process.run(["git", "clean", "-q", "-f", "-d", "-X", "--", *paths], cwd=source, limit=None)
