"""Rebuilds a wheel of PyTorch."""

from __future__ import annotations

import os
from collections.abc import Mapping

from patchgen.core import wheel
from patchgen.core.wheel import env, provenance, toolchain, variables
from patchgen.core.wheel.rebuild.means import Means
from patchgen.core.wheel.rebuild.needs import Need, Rebuildable, need_library, need_pin
from patchgen.core.wheel.rebuild.original import Original
from patchgen.errors import OptionsError, file_errors
from patchgen.system import files
from patchgen.system.native import tools


def read(original: Original, means: Means) -> Rebuildable:
    """Read the request of a `build` from its record.

    Raises:
        OptionsError: the record has an unusable value.
    """
    lock = original.provenance.find_digest(provenance.LOCK)
    commit, before = original.text("request.pin.commit"), original.text("resolved.buildPath")
    options, environ = original.options(), means.make_environ(original)
    python = original.text("resolved.toolchain.python")
    settings = _read_settings(original, before, locked=lock is not None)
    accepted, without = original.texts("request.accepted"), original.texts("request.without")
    work = os.path.join(means.work, "build")

    def find_path() -> Mapping[str, str]:
        return {"path": os.path.join(means.place.seen if means.place.fixed else work, "source")}

    def build(directory: str, _: str) -> str:
        request = wheel.BuildRequest(
            pin=means.find_pin(commit),
            options=options,
            work=work,
            output=directory,
            python=None if lock else means.find_interpreter(python),
            lock=means.lock,
            environment=env.locate("environment.yml", os.path.dirname(means.lock)),
            cache=means.cache,
            environ=environ,
            settings=settings,
            places=means.places,
            without=without,
            accepted=accepted,
        )
        return wheel.build(request, lambda _: None).wheel

    return Rebuildable(
        (
            need_pin(original, means),
            _need_lock(lock, means) if lock else _need_python(original, means, environ),
            need_library(original, means),
            Need("path", {"path": before}, find_path),
        ),
        build,
    )


def _read_settings(original: Original, path: str, *, locked: bool) -> dict[str, str]:
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


def _need_lock(wanted: str, means: Means) -> Need:
    def find() -> Mapping[str, str]:
        with file_errors():
            if not os.path.isfile(means.lock) or files.sha256(means.lock) != wanted:
                raise OptionsError(
                    f"{means.lock}: is not the one; give the lock with sha256 {wanted} with "
                    "--lock FILE"
                )
        return {provenance.LOCK: wanted}

    return Need("lock", {provenance.LOCK: wanted}, find)


def _need_python(original: Original, means: Means, environ: Mapping[str, str]) -> Need:
    """Return the need of interpreter and compiler, for a build without a lock."""
    tool = "resolved.toolchain"
    python = original.text(f"{tool}.python")
    recorded = {
        "version": original.text(f"{tool}.python_version"),
        "soabi": original.text(f"{tool}.soabi"),
        **original.pairs(f"{tool}.packages"),
        **original.pairs(f"{tool}.programs"),
    }

    def find() -> Mapping[str, str]:
        here = toolchain.find(means.find_interpreter(python), environ)
        named = {"version": here.python_version, "soabi": here.soabi}
        return {**named, **here.packages, **here.programs}

    return Need("python", recorded, find)
