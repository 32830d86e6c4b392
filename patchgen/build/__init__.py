"""From a pin and options to a verified wheel, in stages that are recorded and resumed."""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable

from patchgen import checks
from patchgen.build import check as preflight
from patchgen.build import compiling, delivery, sbom
from patchgen.build.context import Context
from patchgen.build.journal import Record
from patchgen.build.request import Request
from patchgen.build.stages import STAGES
from patchgen.errors import CheckError, FileError, InterruptedRun, file_errors
from patchgen.system import lock, paths

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from patchgen.build.delivery import Delivered

__all__ = ["Plan", "Request", "build", "plan"]


@dataclass(frozen=True)
class Plan:
    """What a run will do: the stages that are done already, in order, with what they made."""

    request: Request
    made: Mapping[str, Mapping[str, Any]]

    @property
    def looked(self) -> int:
        """How many stages were looked at: those that are done, and the next."""
        return len(self.made) + 1

    @property
    def stages(self) -> tuple[tuple[str, bool], ...]:
        """Each stage, and whether it is done."""
        return tuple((stage.name, stage.name in self.made) for stage in STAGES)

    @property
    def variables(self) -> Mapping[str, str]:
        """Of the build, as far as they are known before there is an environment."""
        made = self.made.get("env")
        variables: Mapping[str, str] = made["variables"] if made else self.request.variables(None)
        return variables


def plan(request: Request) -> Plan:
    """What is done already. Changes nothing.

    Raises:
        TreeError: the source is not what it must be; each path is named.
        ToolError: the interpreter or the compiler does not run.
    """
    with file_errors():
        context = Context(request, Record(request.work), lambda _: None, lambda *_: None, -1)
        for stage in STAGES:
            made = stage.look(context)
            if made is None:
                break
            context.made[stage.name] = made
    return Plan(request, context.made)


def build(
    request: Request,
    announce: Callable[[Plan], None],
    report: Callable[[str], None],
    count: Callable[[int, int], None],
) -> Delivered:
    """Makes the wheel, from wherever an earlier run was stopped.

    Args:
        request: what to build.
        announce: given the plan before anything begins.
        report: told of each step.
        count: told of ninja's counts, the steps done and in all.

    Raises:
        CheckError: something that the build needs is missing, or the wheel does not hold.
        TreeError: another build is at work there, or the source is not what it must be.
        ToolError: a program failed.
        FileError: the file system refused.
        InterruptedRun: Ctrl-C.
    """
    with _working(request) as guard:
        before = plan(request)
        announce(before)
        if "compile" not in before.made:
            _check(request)
        sbom.require()  # rather now than at the end
        context = Context(request, Record(request.work), report, count, guard)
        log = os.path.join(request.logs, compiling.LOG)
        if os.path.exists(log) and "wheel" not in before.made:
            os.replace(log, f"{log}.1")
        for number, stage in enumerate(STAGES, 1):
            known = before.made.get(stage.name)
            # The plan has looked at all that is done and at the first that is not.
            made = stage.look(context) if known is None and number > before.looked else known
            if made is None:
                report(f"[{number}/{len(STAGES)}] {stage.name}")
                try:
                    made = stage.run(context)
                except KeyboardInterrupt:
                    raise InterruptedRun(
                        f"interrupted in stage {stage.name}; the same command goes on from there"
                    ) from None
            context.made[stage.name] = made
        return delivery.deliver(context)


@contextlib.contextmanager
def _working(request: Request) -> Iterator[int]:
    """The work directory for this run alone, also against what a killed one has left running."""
    with file_errors():
        _make(request.logs, "--work")
        _make(request.output, "--builddir")
        alone = lock.held(paths.from_native(request.work))
        with alone, lock.inherited(request.logs, "the compiler") as guard:
            yield guard


def _make(directory: str, option: str) -> None:
    """A directory to write into, rather now than after an hour."""
    try:
        os.makedirs(directory, exist_ok=True)
        tempfile.TemporaryFile(dir=directory).close()
    except OSError as error:
        raise FileError(
            f"{directory}: {error.strerror}; give another directory with {option}"
        ) from error


def _check(request: Request) -> None:
    site = preflight.Site(
        work=request.work,
        python=request.python,
        lock=request.lock if request.python is None else None,
        environ={**request.environ, **request.settings},
        cwd=os.getcwd(),
        accepted=frozenset(request.accepted),
    )
    found = preflight.run(request.options, request.pin, site)
    if not checks.hold(found):
        missing = [
            f"[ ] {check.name}: {'; '.join(check.problems)}"
            for check in found
            if check.required and not check.ok
        ]
        raise CheckError("\n".join(["this build cannot succeed:", *missing]))
