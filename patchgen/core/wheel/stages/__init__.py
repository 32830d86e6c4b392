"""Stages of a build, in order.

A stage is a function from the session and earlier results to its own result. It returns what an
earlier build made from the same inputs. Otherwise it calls `session.begin` with its name first.
"""

from __future__ import annotations

from patchgen.core.wheel.request import BuildRequest
from patchgen.core.wheel.session import Session
from patchgen.core.wheel.stages import (
    archive,
    environment,
    lock,
    objects,
    patch,
    source,
    verification,
)
from patchgen.core.wheel.values import Built

CHECKED = frozenset({"source", "env", "patch", "compile"})
"""Stages that begin only if no requirement is missing."""
_NAMES = ("lock", "source", "env", "patch", "compile", "wheel", "verify")


def list_names(request: BuildRequest) -> tuple[str, ...]:
    """Return the names of a request's stages; without an environment there is no lock."""
    return _NAMES if request.python is None else _NAMES[1:]


def run_all(session: Session) -> Built:
    """Run all stages."""
    locked = lock.make_lock(session) if session.request.python is None else None
    fetched = source.fetch_source(session)
    env = environment.make_environment(session, locked)
    patched = patch.apply_patch(session)
    compiled = objects.compile_objects(session, fetched, env, patched)
    wheel = archive.pack_wheel(session, fetched, env, patched, compiled)
    verified = verification.verify_wheel(session, env, wheel)
    return Built(fetched, env, patched, compiled, wheel, verified)
