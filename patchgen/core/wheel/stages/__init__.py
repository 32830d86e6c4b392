"""Stages of a build, in order.

A stage is a generator function from the session and earlier results to its own result. It returns
what an earlier build made from the same inputs. Otherwise it yields its name first.
"""

from __future__ import annotations

from patchgen.core.wheel.request import BuildRequest
from patchgen.core.wheel.session import Making, Session
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


def run_all(session: Session) -> Making[Built]:
    """Run all stages. A plan ends before the first that has something to make."""
    locked = (yield from lock.make_lock(session)) if session.request.python is None else None
    fetched = yield from source.fetch_source(session)
    env = yield from environment.make_environment(session, locked)
    patched = yield from patch.apply_patch(session)
    compiled = yield from objects.compile_objects(session, fetched, env, patched)
    wheel = yield from archive.pack_wheel(session, fetched, env, patched, compiled)
    verified = yield from verification.verify_wheel(session, env, wheel)
    return Built(fetched, env, patched, compiled, wheel, verified)
