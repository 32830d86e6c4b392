"""Stages of a build, in order.

A stage is a function from the session and the results of earlier stages to its own result. It looks
for what an earlier run has made of the same inputs. Where there is nothing of it, the stage calls
`session.begin` with its name and makes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

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

if TYPE_CHECKING:
    from typing import Callable

    from typing_extensions import Concatenate, ParamSpec

    from patchgen.core.wheel.request import BuildRequest
    from patchgen.core.wheel.session import Session

    P = ParamSpec("P")

T = TypeVar("T")

CHECKED = frozenset({"source", "env", "patch", "compile"})
"""Stages that begin only if nothing that a build needs is missing."""
_NAMES = ("lock", "source", "env", "patch", "compile", "wheel", "verify")


def list_names(request: BuildRequest) -> tuple[str, ...]:
    """Lists the stages of a request: with an interpreter of the user's there is no lock."""
    return _NAMES if request.python is None else _NAMES[1:]


def run_all(session: Session) -> Built:
    """Runs all stages, and hands on the results."""

    def run(stage: Callable[Concatenate[Session, P], T], *results: P.args, **named: P.kwargs) -> T:
        return stage(session, *results, **named)

    locked = run(lock.make_lock) if session.request.python is None else None
    fetched = run(source.fetch_source)
    env = run(environment.make_environment, locked)
    patched = run(patch.apply_patch)
    compiled = run(objects.compile_objects, fetched, env, patched)
    wheel = run(archive.pack_wheel, fetched, env, compiled)
    verified = run(verification.verify_wheel, env, wheel)
    return Built(locked, fetched, env, patched, compiled, wheel, verified)
