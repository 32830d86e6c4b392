"""What the stages of one run share: the request, the record, and what was made so far."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

from patchgen.build.journal import Done, digest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchgen.build.journal import Record
    from patchgen.build.request import Request

    Made = Mapping[str, Any]


class Context:
    """One run. `made` holds what each stage before the present one has made."""

    def __init__(
        self,
        request: Request,
        record: Record,
        report: Callable[[str], None],
        count: Callable[[int, int], None],
        guard: int,
    ) -> None:
        self.request = request
        self.record = record
        self.report = report
        self.count = count
        self.guard = guard
        self.made: dict[str, Made] = {}

    def known(self, stage: str, inputs: Mapping[str, Any]) -> Made | None:
        """What the stage has made of these inputs, by the record."""
        done = self.record.get(stage)
        return done.made if done is not None and done.inputs == digest(inputs) else None

    def begin(self, stage: str) -> None:
        """What the stage made before counts no more."""
        self.record.drop(stage)

    def done(self, stage: str, inputs: Mapping[str, Any], made: Made) -> Made:
        """The stage has come to its end."""
        self.record.put(stage, Done(digest(inputs), made))
        return made
