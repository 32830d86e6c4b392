"""Build of a verified wheel from a pin and options, in stages that are recorded and resumed."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable

from patchgen.core.wheel import check as preflight
from patchgen.core.wheel import delivery, place, sbom, session, stages
from patchgen.core.wheel.journal import Journal
from patchgen.core.wheel.request import Request
from patchgen.core.wheel.session import Session
from patchgen.core.wheel.stages import environment
from patchgen.errors import CheckError, InterruptedRun, file_errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchgen.core.wheel.delivery import Delivered
    from patchgen.core.wheel.place import Place
    from patchgen.core.wheel.stages import Stage
    from patchgen.system.checks import Check

__all__ = ["Plan", "Request", "build", "find_missing", "plan", "refuse_missing"]

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class Plan:
    """Stages of a run, and those of them that are done."""

    request: Request
    place: Place
    stages: tuple[tuple[str, bool], ...]
    """Name of each stage, and True where it is done."""
    variables: Mapping[str, str]
    """Variables of the build, as far as they are known before there is an environment."""
    checked: bool
    """True where the run begins only if nothing that is needed is missing."""


def plan(request: Request) -> Plan:
    """Looks for what is done already. Changes nothing.

    Raises:
        TreeError: the source is not what it must be; each path is named.
        ToolError: the interpreter or the compiler does not run.
    """
    with file_errors():
        begun = Session(request, Journal(request.work), place.find(request.work))
        return _plan(begun, _look(begun))


def build(request: Request, announce: Callable[[Plan], None]) -> Delivered:
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
    with session.start(request) as begun:
        rest = _look(begun)
        announce(_plan(begun, rest))
        _make(begun, rest)
        return delivery.deliver(begun)


def _look(begun: Session) -> Sequence[Stage]:
    """Reads the results of stages in order, and returns those from the first that is not done."""
    selected = stages.select(begun.request)
    for number, stage in enumerate(selected):
        result = stage.look(begun)
        if result is None:
            return selected[number:]
        setattr(begun, stage.name, result)
    return ()


def _make(begun: Session, rest: Sequence[Stage]) -> None:
    """Makes the results of the other stages; the first is known not to be done."""
    checked = False
    names = [stage.name for stage in stages.select(begun.request)]
    for stage in rest:
        result = None if stage is rest[0] else stage.look(begun)
        if result is None:
            if stage.checked and not checked:
                refuse_missing(find_missing(begun.request))
                checked = True
            sbom.require()  # rather now than at the end
            _LOGGER.info("[%d/%d] %s", names.index(stage.name) + 1, len(names), stage.name)
            try:
                result = stage.make(begun)
            except KeyboardInterrupt:
                raise InterruptedRun(
                    f"interrupted in stage {stage.name}; the same command goes on from there"
                ) from None
        setattr(begun, stage.name, result)


def _plan(begun: Session, rest: Sequence[Stage]) -> Plan:
    request = begun.request
    known = hasattr(begun, "env")
    return Plan(
        request,
        begun.place,
        tuple((stage.name, stage not in rest) for stage in stages.select(request)),
        begun.env.variables if known else environment.variables_of(begun),
        checked=any(stage.checked for stage in rest),
    )


def find_missing(request: Request) -> list[Check]:
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


def refuse_missing(rows: Sequence[Check]) -> None:
    """Refuses a build where rows are missing.

    Raises:
        CheckError: there are some; names each.
    """
    if rows:
        lines = [f"[ ] {row.name}: {'; '.join(row.problems)}" for row in rows]
        raise CheckError("\n".join(["this build cannot succeed:", *lines]))
