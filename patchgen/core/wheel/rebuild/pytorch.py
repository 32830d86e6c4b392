"""Rebuilds a wheel of PyTorch."""

from __future__ import annotations

import os
from collections.abc import Mapping

from patchgen.core import wheel
from patchgen.core.patch import patches
from patchgen.core.wheel import conda, provenance, toolchain, variables
from patchgen.core.wheel.rebuild import requirements
from patchgen.core.wheel.rebuild.recorded import RecordedBuild
from patchgen.core.wheel.rebuild.request import RebuildRequest
from patchgen.core.wheel.rebuild.requirements import Rebuildable, Requirement
from patchgen.errors import OptionsError, file_errors
from patchgen.system import files
from patchgen.system.native import tools


def read(original: RecordedBuild, request: RebuildRequest) -> Rebuildable:
    """Read the request of a `build` from its record.

    Raises:
        OptionsError: the record has an unusable value.
    """
    lock = original.provenance.find_digest(provenance.LOCK)
    commit = original.text("request.pin.commit")
    before = original.text("resolved.buildPath")
    options, environ = original.options(), request.make_environ(original)
    python = original.text("resolved.toolchain.python")
    settings = _read_settings(original, before, locked=lock is not None)
    accepted, without = original.texts("request.accepted"), original.texts("request.without")

    def find_path() -> Mapping[str, str]:
        return {"path": os.path.join(request.sandbox.inside, "source")}

    def build(directory: str, _: str) -> str:
        wanted = wheel.BuildRequest(
            patch=patches.make(options, request.find_pin(commit)),
            work=request.work,
            output=directory,
            python=None if lock else request.find_interpreter(python),
            lock=request.lock,
            environment_file=conda.locate("environment.yml", os.path.dirname(request.lock)),
            cache=request.cache,
            environ=environ,
            settings=settings,
            remotes=request.remotes,
            without=without,
            accepted=accepted,
        )
        return wheel.build(wanted, lambda _: None).wheel

    return Rebuildable(
        (
            requirements.pin(original, request),
            _require_lock(lock, request) if lock else _require_python(original, request, environ),
            requirements.library(original, request),
            Requirement("path", {"path": before}, find_path),
        ),
        build,
    )


def _read_settings(original: RecordedBuild, path: str, *, locked: bool) -> dict[str, str]:
    """Return the variables that `build` gets with --set."""
    prefix = os.path.join(os.path.dirname(path), "env")
    return variables.parse(
        [
            f"{name}={value}"
            for name, value in original.pairs("request.variables").items()
            if name not in variables.NEUTRAL and value != prefix
            if locked or name not in tools.COMPILERS
        ]
    )


def _require_lock(wanted: str, request: RebuildRequest) -> Requirement:
    def find() -> Mapping[str, str]:
        with file_errors():
            if not os.path.isfile(request.lock) or files.sha256(request.lock) != wanted:
                raise OptionsError(
                    f"{request.lock}: is not the one; give the lock with sha256 {wanted} with "
                    "--lock FILE"
                )
        return {provenance.LOCK: wanted}

    return Requirement("lock", {provenance.LOCK: wanted}, find)


def _require_python(
    original: RecordedBuild, request: RebuildRequest, environ: Mapping[str, str]
) -> Requirement:
    """Return the requirement of interpreter and compiler, for a build without a lock."""
    tool = "resolved.toolchain"
    python = original.text(f"{tool}.python")
    recorded = {
        "version": original.text(f"{tool}.python_version"),
        "soabi": original.text(f"{tool}.soabi"),
        **original.pairs(f"{tool}.packages"),
        **original.pairs(f"{tool}.programs"),
    }

    def find() -> Mapping[str, str]:
        here = toolchain.find(request.find_interpreter(python), environ)
        named = {"version": here.python_version, "soabi": here.soabi}
        return {**named, **here.packages, **here.programs}

    return Requirement("python", recorded, find)
