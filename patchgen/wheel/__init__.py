"""From a pin and options to a verified wheel, in stages that are recorded and resumed."""

from __future__ import annotations

import contextlib
import logging
import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Callable, TypeVar

from patchgen.errors import CheckError, InterruptedRun, file_errors
from patchgen.wheel import check as preflight
from patchgen.wheel import compiling, delivery, packing, sbom, stages, verifying
from patchgen.wheel.journal import Journal
from patchgen.wheel.place import Place, taken
from patchgen.wheel.request import Request
from patchgen.wheel.values import Made

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchgen.checks import Check
    from patchgen.wheel.delivery import Delivered

__all__ = ["Plan", "Request", "build", "missing", "plan", "refuse"]

_LOG = logging.getLogger(__name__)
_LOCK = "lock"
_STAGES = ("source", "env", "patch", "compile", "wheel", "verify")
_CHECKED = {
    "source",
    "env",
    "patch",
    "compile",
}  # begun only where nothing that is needed is missing

T = TypeVar("T")


@dataclass(frozen=True)
class Plan:
    """What a run will do."""

    request: Request
    stages: tuple[tuple[str, bool], ...]
    """Each stage, and whether it is done."""
    variables: Mapping[str, str]
    """Of the build, as far as they are known before there is an environment."""

    @property
    def checked(self) -> bool:
        """The run begins only where nothing that is needed is missing."""
        return any(not done for name, done in self.stages if name in _CHECKED)


class _Ended(Exception):  # noqa: N818  # no error: there is nothing more to look at
    """A plan has come to what is not done."""


class _Walk:
    """Goes from stage to stage: looks whether it is done, and else makes it."""

    def __init__(self, request: Request, announce: Callable[[Plan], None]) -> None:
        self._request = request
        self._announce = announce
        self._names = _STAGES if request.python else (_LOCK, *_STAGES)
        self._done: list[str] = []
        self._planned = self._checked = False
        self.variables: Callable[[], Mapping[str, str]] = dict
        """Of the build, as far as they are known."""

    def __call__(self, name: str, look: Callable[[], T | None], make: Callable[[], T]) -> T:
        """What a stage has made, or makes."""
        found = look()
        if found is not None:
            if not self._planned:
                self._done.append(name)
            return found
        self.plan()
        if name in _CHECKED and not self._checked:
            self._checked = True
            refuse(missing(self._request))
        sbom.require()  # rather now than at the end
        _LOG.info(f"[{self._names.index(name) + 1}/{len(self._names)}] {name}")
        try:
            return make()
        except KeyboardInterrupt:
            raise InterruptedRun(
                f"interrupted in stage {name}; the same command goes on from there"
            ) from None

    def plan(self) -> None:
        """Announces what is to be done, once."""
        if not self._planned:
            self._planned = True
            found = tuple((name, name in self._done) for name in self._names)
            self._announce(Plan(self._request, found, self.variables()))


def _made(walk: _Walk, place: Place) -> Made:
    """All stages in order, each made of what those before it have made."""
    of = place.request
    lock = None
    walk.variables = partial(stages.variables_of, of, lock)
    if of.python is None:
        lock = walk(_LOCK, partial(stages.look_lock, of), partial(stages.make_lock, of))
    walk.variables = partial(stages.variables_of, of, lock)
    source = walk("source", partial(stages.look_source, of), partial(stages.make_source, of))
    environment = walk(
        "env",
        partial(stages.look_environment, of, lock),
        partial(stages.make_environment, of, lock),
    )
    walk.variables = partial(dict, environment.variables)
    patched = walk("patch", partial(stages.look_patch, of), partial(stages.make_patch, of))
    objects = walk(
        "compile",
        partial(compiling.look, place, source, environment, patched),
        partial(compiling.make, place, source, environment, patched),
    )
    wheel = walk(
        "wheel",
        partial(packing.look, place, source, objects),
        partial(packing.make, place, source, environment, objects),
    )
    verified = walk(
        "verify",
        partial(verifying.look, place, environment, wheel),
        partial(verifying.make, place, environment, wheel),
    )
    walk.plan()
    return Made(of, lock, source, environment, patched, objects, wheel, verified)


def plan(request: Request) -> Plan:
    """What is done already. Changes nothing.

    Raises:
        TreeError: the source is not what it must be; each path is named.
        ToolError: the interpreter or the compiler does not run.
    """
    plans: list[Plan] = []

    def ended(found: Plan) -> None:
        plans.append(found)
        raise _Ended

    with file_errors(), contextlib.suppress(_Ended):
        _made(_Walk(request, ended), Place(request, Journal(request.work), -1))
    return plans[0]


def build(request: Request, announce: Callable[[Plan], None]) -> Delivered:
    """Makes the wheel, from wherever an earlier run was stopped. Logs each step.

    Args:
        request: what to build.
        announce: given the plan before anything begins.

    Raises:
        CheckError: something that the build needs is missing, or the wheel does not hold.
        TreeError: another build is at work there, or the source is not what it must be.
        ToolError: a program failed.
        FileError: the file system refused.
        InterruptedRun: Ctrl-C.
    """
    with taken(request) as place:
        return delivery.deliver(_made(_Walk(request, announce), place))


def missing(request: Request) -> list[Check]:
    """Finds what a build cannot do without and does not have. Changes nothing.

    Raises:
        FileError: there is no room for a scratch directory.
    """
    site = preflight.Site(
        work=request.work,
        python=request.python,
        lock=request.lock if request.python is None else None,
        environ={**request.environ, **request.settings},
        cwd=os.getcwd(),
        accepted=frozenset(request.accepted),
        environment=request.environment,
    )
    found = preflight.run(request.options, request.pin, site)
    return [check for check in found if check.required and not check.ok]


def refuse(rows: Sequence[Check]) -> None:
    """Refuses a build where rows are missing.

    Raises:
        CheckError: there are some; names each.
    """
    if rows:
        lines = [f"[ ] {row.name}: {'; '.join(row.problems)}" for row in rows]
        raise CheckError("\n".join(["this build cannot succeed:", *lines]))
