"""The stages of a build. Each says what it has made already, and else makes it.

`look` only reads: it gives what the stage has made of these very inputs, or None. `run` makes it,
from wherever an earlier run was stopped.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

from patchgen import checks
from patchgen import source as sources
from patchgen.build import compiling, journal, toolchain, variables
from patchgen.build.check.accepted import CRASH
from patchgen.client import library
from patchgen.errors import CheckError, ToolError
from patchgen.patch import patchfile, render, state, tree
from patchgen.system import paths
from patchgen.system.files import sha256
from patchgen.system.wheel import normalise

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchgen.build.context import Context

    Made = Mapping[str, Any]


class Stage(NamedTuple):
    """One step from a request to a verified wheel."""

    name: str
    look: Callable[[Context], Made | None]
    run: Callable[[Context], Made]


def _partly(context: Context) -> bool:
    """A run was killed between two files of the patch."""
    source = paths.from_native(context.request.source)
    if not os.path.isdir(context.request.source):
        return False
    return state.inspect(source, (context.request.pin,)).overall is state.Overall.PARTLY


def look_source(context: Context) -> Made | None:
    """The tree, where it is complete."""
    request = context.request
    if _partly(context):
        return None
    found = sources.present(paths.from_native(request.source), request.pin)
    return None if found is None else _source(found)


def run_source(context: Context) -> Made:
    """Fetches what is missing, and verifies all of it."""
    request = context.request
    source = paths.from_native(request.source)
    if _partly(context):
        tree.revert(source, (request.pin,), request.pin)
    wanted = sources.Wanted(
        request.pin, request.without, places=request.places, jobs=request.fetch_jobs
    )
    return _source(sources.obtain(source, wanted))


def _source(found: sources.Source) -> Made:
    return {
        "commit": found.pin.commit,
        "commits": dict(found.commits),
        "addresses": dict(found.addresses),
        "epoch": found.epoch,
    }


def look_environment(context: Context) -> Made | None:
    """The environment, where it is whole and made from this lock."""
    request = context.request
    if request.python is not None:
        return _environment(context, request.python, None)
    from patchgen.build.env import lockfile, marker

    lock = lockfile.read(request.lock)
    found = marker.read(request.prefix) if os.path.isdir(request.prefix) else None
    if found is None or not found.whole or found.lock != lock.identity:
        return None
    return _environment(context, os.path.join(request.prefix, "bin", "python"), lock)


def run_environment(context: Context) -> Made:
    """Makes the prefix from the lock. One that is of another lock gives way."""
    from patchgen.build.env import create, lockfile, marker

    request = context.request
    lock = lockfile.read(request.lock)
    stale = lockfile.stale(lock, request.lock)
    if stale:
        context.report(f"warning: {stale}")
    found = marker.read(request.prefix) if os.path.isdir(request.prefix) else None
    if found is not None and found.lock != lock.identity:
        context.report(f"removing {request.prefix}, which is of another lock")
        shutil.rmtree(request.prefix)
    create.create(lock, request.prefix, request.cache, link_scripts=True, report=context.report)
    return _environment(context, os.path.join(request.prefix, "bin", "python"), lock)


def _environment(context: Context, python: str, lock: Any) -> Made:  # noqa: ANN401  # Lock
    request = context.request
    names = {package.name for package in lock.packages} if lock else set()
    values = request.variables(request.prefix if "cudatoolkit-dev" in names else None)
    tools = os.path.dirname(python) if lock else None
    environ = variables.environment(values, request.environ, tools)
    if lock:
        environ = {**toolchain.activated(request.prefix, environ), **values}
    found = toolchain.find(python, environ)
    return {
        "python": python,
        "lock": lock.identity if lock else None,
        "lock_file": sha256(request.lock) if lock else None,
        "toolchain": found.data(),
        "identity": found.identity,
        "variables": values,
        "environ": environ,
    }


def look_patch(context: Context) -> Made | None:
    """The patch, where the tree has these very options."""
    request = context.request
    found = state.inspect(paths.from_native(request.source), (request.pin,))
    applied = found.overall is state.Overall.PATCHED and found.options == request.options
    return _patch(context) if applied else None


def run_patch(context: Context) -> Made:
    """Applies it; on a patched tree only files that differ are written."""
    request = context.request
    tree.apply(paths.from_native(request.source), request.options, (request.pin,), request.pin)
    return _patch(context)


def _patch(context: Context) -> Made:
    request = context.request
    home = request.options.switchml_home
    client: dict[str, Any] = {"client": None, "simulator": False}
    with contextlib.suppress(library.ArchiveError, FileNotFoundError):  # preflight tells of it
        client = {"client": sha256(library.path(home)), "simulator": library.read(home).simulator}
    return {
        "sha256": hashlib.sha256(patchfile.build(request.options, request.pin)).hexdigest(),
        "new_files": sorted(render.new_paths(request.pin)),
        **client,
    }


def _compile_inputs(context: Context) -> dict[str, Any]:
    environment = context.made["env"]
    held = {
        name: value
        for name, value in environment["variables"].items()
        if name not in variables.NEUTRAL
    }
    return {
        "commit": context.made["source"]["commit"],
        "patch": context.made["patch"],
        "toolchain": environment["identity"],
        "lock": environment["lock"],
        "variables": held,
        "version": context.request.version,
        "path": context.request.source,
    }


def look_compile(context: Context) -> Made | None:
    """The objects, where these inputs were compiled to the end."""
    made = context.known("compile", _compile_inputs(context))
    return made if made and os.path.isdir(os.path.join(context.request.source, "build")) else None


def run_compile(context: Context) -> Made:
    """Runs setup.py build, which goes on with the objects that are there."""
    inputs = _compile_inputs(context)
    context.begin("compile")
    compiling.prepare(context, inputs)
    compiling.setup_py(context, "compile", ["build"])
    return context.done("compile", inputs, {"inputs": journal.digest(inputs)})


def _wheel_inputs(context: Context) -> dict[str, Any]:
    return {"compile": context.made["compile"], "epoch": context.made["source"]["epoch"]}


def look_wheel(context: Context) -> Made | None:
    """The wheel, where it is of these objects and as it was made."""
    made = context.known("wheel", _wheel_inputs(context))
    if made is None:
        return None
    path = os.path.join(context.request.work, "wheel", made["name"])
    return made if os.path.isfile(path) and sha256(path) == made["sha256"] else None


def run_wheel(context: Context) -> Made:
    """Runs setup.py bdist_wheel, and writes the wheel anew in a fixed order."""
    request = context.request
    inputs = _wheel_inputs(context)
    context.begin("wheel")
    rough, final = (os.path.join(request.work, name) for name in ("dist", "wheel"))
    for directory in (rough, final):
        shutil.rmtree(directory, ignore_errors=True)
        os.mkdir(directory)
    compiling.setup_py(context, "wheel", ["bdist_wheel", "--dist-dir", rough])
    names = [name for name in os.listdir(rough) if name.endswith(".whl")]
    if len(names) != 1:
        raise ToolError(f"setup.py bdist_wheel wrote {len(names)} wheels to {rough}, not one")
    path = os.path.join(final, names[0])
    context.report(f"writing {names[0]}")
    digest = normalise(os.path.join(rough, names[0]), path, context.made["source"]["epoch"])
    shutil.rmtree(rough)
    made = {"name": names[0], "sha256": digest, "size": os.path.getsize(path)}
    return context.done("wheel", inputs, made)


def _verify_inputs(context: Context) -> dict[str, Any]:
    request = context.request
    return {
        "wheel": context.made["wheel"],
        "expected": [request.version, list(request.options.flags)],
        "python": context.made["env"]["identity"],
        "configs": [sha256(path) for path in request.configs],
    }


def look_verify(context: Context) -> Made | None:
    """What was found, where it was this wheel."""
    return context.known("verify", _verify_inputs(context))


def run_verify(context: Context) -> Made:
    """Imports the wheel and sums with it.

    Raises:
        CheckError: something does not hold.
    """
    from patchgen.ranks import verify

    request = context.request
    inputs = _verify_inputs(context)
    context.begin("verify")
    path = os.path.join(request.work, "wheel", context.made["wheel"]["name"])
    expected = verify.Expected(
        version=request.version,
        flags=request.options.flags,
        may_crash=CRASH in request.accepted,
    )
    found = verify.wheel(
        path, context.made["env"]["python"], expected, request.configs, request.environ
    )
    if not checks.hold(found):
        wrong = [
            f"{check.name}: {'; '.join(check.problems)}"
            for check in found
            if check.required and not check.ok
        ]
        raise CheckError("\n".join([f"{path} does not pass its verification", *wrong]))
    return context.done("verify", inputs, {"checks": [check.name for check in found]})


STAGES = (
    Stage("source", look_source, run_source),
    Stage("env", look_environment, run_environment),
    Stage("patch", look_patch, run_patch),
    Stage("compile", look_compile, run_compile),
    Stage("wheel", look_wheel, run_wheel),
    Stage("verify", look_verify, run_verify),
)
