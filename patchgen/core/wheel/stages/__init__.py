"""The stages of a build, in order.

`look` reads what the stage has made already of what was asked for, and gives None where there is
nothing of it. `make` makes it, from wherever an earlier run was stopped. Both get the session with
the results of the stages before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable

from patchgen.core.wheel.stages import (
    archive,
    environment,
    lock,
    objects,
    patch,
    source,
    verification,
)

if TYPE_CHECKING:
    from patchgen.core.wheel.request import Request
    from patchgen.core.wheel.session import Session


@dataclass(frozen=True)
class Stage:
    """A stage of a build."""

    name: str
    """Name in the plan, and of its result in the session."""
    look: Callable[[Session], object | None]
    make: Callable[[Session], object]
    checked: bool = True
    """True where it begins only if nothing that a build needs is missing."""


STAGES = (
    Stage("lock", lock.look, lock.make, checked=False),
    Stage("source", source.look, source.make),
    Stage("env", environment.look, environment.make),
    Stage("patch", patch.look, patch.make),
    Stage("compile", objects.look, objects.make),
    Stage("wheel", archive.look, archive.make, checked=False),
    Stage("verify", verification.look, verification.make, checked=False),
)


def select(request: Request) -> tuple[Stage, ...]:
    """Stages of a request: with an interpreter of the user's there is no lock."""
    return tuple(stage for stage in STAGES if request.python is None or stage.name != "lock")
