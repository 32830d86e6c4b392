"""Builds a verified wheel from a pin and options, in stages that are recorded and resumed."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from patchgen.core.wheel import delivery, session, stages
from patchgen.core.wheel.check import check_build
from patchgen.core.wheel.delivery import Delivered
from patchgen.core.wheel.place import Place
from patchgen.core.wheel.request import BuildRequest
from patchgen.core.wheel.session import Session
from patchgen.core.wheel.stages import environment
from patchgen.errors import CheckError, InterruptedRun, file_errors
from patchgen.system.checks import Check

__all__ = ["BuildRequest", "Plan", "build", "plan", "refuse_missing"]

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class Plan:
    """Stages of a build, and which of them are already done."""

    session: Session
    first: str | None = None
    """First stage to run; None where all are done."""
    missing: tuple[Check, ...] = ()
    """Requirements that are missing; empty if no stage to run needs them."""

    @property
    def request(self) -> BuildRequest:
        """Request that this is the plan of."""
        return self.session.request

    @property
    def place(self) -> Place:
        """The work directory, under the path that programs see."""
        return self.session.place

    @property
    def stages(self) -> list[tuple[str, bool]]:
        """Name of each stage, and whether it is done."""
        names = stages.list_names(self.request)
        done = len(names) if self.first is None else names.index(self.first)
        return [(name, number < done) for number, name in enumerate(names)]

    @property
    def variables(self) -> Mapping[str, str]:
        """Variables of the build, as far as they are known without the environment."""
        return environment.read_variables(self.request, self.place)


class _UndoneError(Exception):
    """Ends a plan at the first stage that has something to make."""


def plan(request: BuildRequest) -> Plan:
    """Find out what is already done and what is missing. Changes nothing.

    Raises:
        OptionsError: the request has a value with which PyTorch's build would fail.
        TreeError: the source is not as expected; each path is named.
        ToolError: the interpreter or the compiler does not run.
    """
    request.validate()

    def stop(_: Session, stage: str) -> None:
        raise _UndoneError(stage)

    with file_errors():
        session = Session(request, stop)
        try:
            stages.run_all(session)
        except _UndoneError as undone:
            first = str(undone)
        else:
            return Plan(session)
    rest = itertools.dropwhile(lambda name: name != first, stages.list_names(request))
    checked = not stages.CHECKED.isdisjoint(rest)
    return Plan(session, first, tuple(_find_missing(request)) if checked else ())


class _Stages:
    """Stages that a build has begun, in order. The first one announces the plan."""

    def __init__(self, announce: Callable[[Plan], None]) -> None:
        self._announce = announce
        self.names: list[str] = []

    def allow(self, session: Session, stage: str) -> None:
        """Record a stage, or refuse it where a requirement is missing."""
        request = session.request
        if not self.names:
            self._announce(Plan(session, stage))
        if stage in stages.CHECKED and stages.CHECKED.isdisjoint(self.names):
            refuse_missing(_find_missing(request))
        names = stages.list_names(request)
        _LOGGER.info("[%d/%d] %s", names.index(stage) + 1, len(names), stage)
        self.names.append(stage)


def build(request: BuildRequest, announce: Callable[[Plan], None]) -> Delivered:
    """Build the wheel, from wherever an earlier build stopped. Logs each step.

    `announce` gets the plan before anything begins. Where namespaces are available, this process
    has its own mounts afterwards, and no network.

    Raises:
        OptionsError: the request has a value with which PyTorch's build would fail.
        CheckError: a requirement is missing, or the wheel fails its verification.
        TreeError: another build uses the work directory, or the source is not as expected.
        ToolError: a program failed.
        FileError: the file system refused.
        InterruptedRun: Ctrl-C.
    """
    request.validate()
    begun = _Stages(announce)
    with session.start(request, begun.allow) as started:
        try:
            built = stages.run_all(started)
        except KeyboardInterrupt:
            if not begun.names:
                raise
            raise InterruptedRun(
                f"interrupted in stage {begun.names[-1]}; the same command goes on from there"
            ) from None
        if not begun.names:
            announce(Plan(started))
        return delivery.deliver(started, built)


def _find_missing(request: BuildRequest) -> list[Check]:
    """Return the requirements that are missing. Changes nothing.

    Raises:
        FileError: there is no space for a scratch directory.
    """
    return [check for check in check_build(request) if check.required and not check.ok]


def refuse_missing(rows: Sequence[Check]) -> None:
    """Refuse a build that lacks something.

    Raises:
        CheckError: `rows` is not empty; names each row.
    """
    if rows:
        lines = [f"[ ] {row.name}: {'; '.join(row.problems)}" for row in rows]
        raise CheckError("\n".join(["this build cannot succeed:", *lines]))
