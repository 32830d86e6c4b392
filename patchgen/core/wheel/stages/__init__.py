"""Stages of a build, in order.

A stage is a function from the session and the results of earlier stages to its own result. It looks
for what an earlier run has made of the same inputs. Where there is nothing of it, the stage calls
`session.begin` with its name and makes it.
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
"""Stages that begin only if nothing that a build needs is missing."""
_NAMES = ("lock", "source", "env", "patch", "compile", "wheel", "verify")


def list_names(request: BuildRequest) -> tuple[str, ...]:
    """Lists the stages of a request: with an interpreter of the user's there is no lock."""
    return _NAMES if request.python is None else _NAMES[1:]


def run_all(session: Session) -> Built:
    """Runs all stages, and hands on the results."""
    locked = lock.make_lock(session) if session.request.python is None else None
    fetched = source.fetch_source(session)
    env = environment.make_environment(session, locked)
    patched = patch.apply_patch(session)
    compiled = objects.compile_objects(session, fetched, env, patched)
    wheel = archive.pack_wheel(session, fetched, env, compiled)
    verified = verification.verify_wheel(session, env, wheel)
    return Built(fetched, env, patched, compiled, wheel, verified)
