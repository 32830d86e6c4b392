"""Build of a verified wheel from a pin and options, in stages that are recorded and resumed."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchgen.core.wheel import delivery, place, sbom, session, stages
from patchgen.core.wheel.check import CheckRequest, check_build
from patchgen.core.wheel.journal import Journal
from patchgen.core.wheel.request import BuildRequest
from patchgen.core.wheel.session import Session
from patchgen.core.wheel.stages import environment
from patchgen.errors import CheckError, InterruptedRun, file_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from patchgen.core.wheel.delivery import Delivered
    from patchgen.core.wheel.place import Place
    from patchgen.system.checks import Check

__all__ = ["BuildRequest", "Plan", "build", "find_missing", "plan", "refuse_missing"]

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class Plan:
    """Stages of a run, and those of them that are done."""

    request: BuildRequest
    place: Place
    stages: tuple[tuple[str, bool], ...]
    """Name of each stage, and True where it is done."""
    variables: Mapping[str, str]
    """Variables of the build, as far as they are known before there is an environment."""

    @property
    def checked(self) -> bool:
        """True where the run begins only if nothing that is needed is missing."""
        return any(name in stages.CHECKED for name, done in self.stages if not done)


class _UndoneError(Exception):
    """The first stage that is not done, where only a plan is asked for."""


def plan(request: BuildRequest) -> Plan:
    """Looks for what is done already. Changes nothing.

    Raises:
        TreeError: the source is not what it must be; each path is named.
        ToolError: the interpreter or the compiler does not run.
    """
    found = place.find(request.work)

    def stop(stage: str) -> None:
        raise _UndoneError(stage)

    with file_errors():
        try:
            stages.run(Session(request, found, Journal(request.work), stop))
        except _UndoneError as first:
            return _make_plan(request, found, str(first))
        return _make_plan(request, found)


def build(request: BuildRequest, announce: Callable[[Plan], None]) -> Delivered:
    """Makes the wheel, from wherever an earlier run was stopped. Logs each step.

    Where the system gives namespaces, this process has mounts of its own afterwards, and no
    network.

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
    found = place.find(request.work)
    names = stages.list_names(request)
    begun: list[str] = []

    def begin(stage: str) -> None:
        if not begun:
            announce(_make_plan(request, found, stage))
        if stage in stages.CHECKED and stages.CHECKED.isdisjoint(begun):
            refuse_missing(find_missing(request))
        sbom.require()  # rather now than at the end
        _LOGGER.info("[%d/%d] %s", names.index(stage) + 1, len(names), stage)
        begun.append(stage)

    with session.start(request, found, begin) as started:
        try:
            built = stages.run(started)
        except KeyboardInterrupt:
            if not begun:
                raise
            raise InterruptedRun(
                f"interrupted in stage {begun[-1]}; the same command goes on from there"
            ) from None
        if not begun:
            announce(_make_plan(request, found))
        return delivery.deliver(started, built)


def _make_plan(request: BuildRequest, found: Place, first: str | None = None) -> Plan:
    """Plan of a run whose stages are done before the first that is named, or all of them."""
    names = stages.list_names(request)
    done = len(names) if first is None else names.index(first)
    return Plan(
        request,
        found,
        tuple((name, number < done) for number, name in enumerate(names)),
        environment.read_variables(request, found),
    )


def find_missing(request: BuildRequest) -> list[Check]:
    """Finds what a build cannot do without and does not have. Changes nothing.

    Raises:
        FileError: there is no room for a scratch directory.
    """
    asked = CheckRequest(
        options=request.options,
        pin=request.pin,
        work=request.work,
        python=request.python,
        lock=request.lock if request.python is None else None,
        environ={**request.environ, **request.settings},
        cwd=os.getcwd(),
        accepted=frozenset(request.accepted),
        environment=request.environment,
    )
    return [check for check in check_build(asked) if check.required and not check.ok]


def refuse_missing(rows: Sequence[Check]) -> None:
    """Refuses a build where rows are missing.

    Raises:
        CheckError: there are some; names each.
    """
    if rows:
        lines = [f"[ ] {row.name}: {'; '.join(row.problems)}" for row in rows]
        raise CheckError("\n".join(["this build cannot succeed:", *lines]))
