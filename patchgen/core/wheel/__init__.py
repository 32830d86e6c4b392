"""Builds a verified wheel from a pin and options, in stages that are recorded and resumed."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from patchgen.core.wheel import delivery, stages, workspace
from patchgen.core.wheel.check import check_build
from patchgen.core.wheel.delivery import Delivered
from patchgen.core.wheel.request import BuildRequest
from patchgen.core.wheel.stages import build_environment
from patchgen.core.wheel.values import Built, Stage
from patchgen.core.wheel.workspace import Workspace
from patchgen.errors import CheckError, InterruptedRun, ToolError, file_errors
from patchgen.system.checks import Check, find_failed

__all__ = ["BuildRequest", "Plan", "build", "plan", "refuse_missing"]

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class Plan:
    """Stages of a build, and which of them are already done."""

    workspace: Workspace
    first: Stage | None = None
    """First stage to run; None where all are done."""
    missing: tuple[Check, ...] = ()
    """Requirements that are missing; empty if no stage to run needs them."""

    @property
    def stages(self) -> list[tuple[str, bool]]:
        """Name of each stage, and whether it is done."""
        listed = stages.list_stages(self.workspace.request)
        done = len(listed) if self.first is None else listed.index(self.first)
        return [(stage.value, number < done) for number, stage in enumerate(listed)]

    @property
    def variables(self) -> Mapping[str, str]:
        """Variables of the build, as far as they are known without the environment."""
        return build_environment.read_variables(self.workspace.request, self.workspace.sandbox)


def plan(request: BuildRequest) -> Plan:
    """Find out what is already done and what is missing. Changes nothing.

    Raises:
        OptionsError: the request has a value with which PyTorch's build would fail.
        CheckError: a requirement is missing without which the plan is unknown.
        TreeError: the source is not as expected; each path is named.
        ToolError: the interpreter or the compiler does not run.
    """
    request.validate()
    with file_errors():
        workspace = Workspace(request)
        try:
            first = next(stages.run_all(workspace), None)
        except ToolError:
            _check(request)
            raise
    if first is None:
        return Plan(workspace)
    rest = itertools.dropwhile(lambda stage: stage != first, stages.list_stages(request))
    checked = not stages.CHECKED.isdisjoint(rest)
    return Plan(workspace, first, tuple(find_failed(check_build(request))) if checked else ())


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
    begun: list[Stage] = []
    with workspace.start(request) as started:
        try:
            built = _run(started, begun, announce)
        except KeyboardInterrupt:
            if not begun:
                raise
            raise InterruptedRun(
                f"interrupted in stage {begun[-1].value}; the same command goes on from there"
            ) from None
        if not begun:
            announce(Plan(started))
        return delivery.deliver(started, built)


def _run(workspace: Workspace, begun: list[Stage], announce: Callable[[Plan], None]) -> Built:
    """Run all stages; add each that begins to `begun`."""
    request, running = workspace.request, stages.run_all(workspace)
    listed, checked = stages.list_stages(request), False
    while True:
        try:
            stage = next(running)
        except StopIteration as end:
            built: Built = end.value
            return built
        except ToolError:
            if not begun:
                _check(request)
            raise
        if not begun:
            announce(Plan(workspace, stage))
        if stage in stages.CHECKED and not checked:
            _check(request)
        checked = stage not in stages.REVEALING
        _LOGGER.info("[%d/%d] %s", listed.index(stage) + 1, len(listed), stage.value)
        begun.append(stage)


def _check(request: BuildRequest) -> None:
    """Refuse a build that lacks something that can be checked now."""
    refuse_missing(find_failed(check_build(request)))


def refuse_missing(rows: Sequence[Check]) -> None:
    """Refuse a build that lacks something.

    Raises:
        CheckError: `rows` is not empty; names each row.
    """
    if rows:
        lines = [f"[ ] {row.name}: {'; '.join(row.problems)}" for row in rows]
        raise CheckError("\n".join(["this build cannot succeed:", *lines]))
