"""Workspace of a build: its request, its locked directory and the journal in that."""

from __future__ import annotations

import contextlib
import functools
import json
import os
from collections.abc import Generator, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from patchgen.core.wheel import sandbox as sandboxes
from patchgen.core.wheel.request import BuildRequest
from patchgen.core.wheel.sandbox import Sandbox
from patchgen.core.wheel.values import BuiltWheel, Configured, Objects, Stage, Verified
from patchgen.errors import file_errors
from patchgen.system import files, outputs, paths, untrusted
from patchgen.system import lock as locks

_FILE = "state.json"
_VERSION = 1
_NAMES: Mapping[type, str] = {
    Configured: "configured",
    Objects: Stage.COMPILE.value,
    BuiltWheel: Stage.WHEEL.value,
    Verified: Stage.VERIFY.value,
}

Value = TypeVar("Value", Configured, Objects, BuiltWheel, Verified)


class Journal:
    """Journal of a work directory. Every change is on disk before a method returns."""

    def __init__(self, directory: str) -> None:
        self._path = os.path.join(directory, _FILE)
        self._stages: dict[str, Any] = {}
        # Where it is missing or unreadable, no stage counts as done.
        with (
            contextlib.suppress(FileNotFoundError, KeyError, TypeError, ValueError),
            open(self._path, "rb") as file,
        ):
            data = untrusted.parse_json(file.read())
            if data["version"] == _VERSION:
                self._stages = dict(data["stages"])

    def get(self, kind: type[Value], inputs: str | None = None) -> Value | None:
        """Return the recorded result of a stage, if it was made from these inputs (None: any)."""
        entry: Any = self._stages.get(_NAMES[kind])
        try:
            if inputs is not None and entry["inputs"] != inputs:
                return None
            made: dict[str, Any] = {
                name: tuple(value) if isinstance(value, list) else value
                for name, value in entry["made"].items()
            }
            return kind(**made)
        except (AttributeError, KeyError, TypeError):
            return None

    def put(self, value: Configured | Objects | BuiltWheel | Verified, inputs: str) -> None:
        """Record the result of a finished stage."""
        self._stages[_NAMES[type(value)]] = {"inputs": inputs, "made": asdict(value)}
        self._write()

    def drop(self, kind: type[Value]) -> None:
        """Forget the result of a stage that is about to begin."""
        if self._stages.pop(_NAMES[kind], None) is not None:
            self._write()

    def _write(self) -> None:
        data = {"version": _VERSION, "stages": self._stages}
        text = json.dumps(data, indent=2, sort_keys=True)
        files.replace(os.fsencode(self._path), text.encode() + b"\n")


T = TypeVar("T")
Making = Generator[Stage, None, T]
"""Run of stages, which yields each that has something to make, and returns their result."""


@dataclass(frozen=True)
class Workspace:
    """Request and work directory of a build, for its stages."""

    request: BuildRequest
    guard: int | None = None
    """Descriptor of the lock that programs inherit; None in a plan."""

    def __post_init__(self) -> None:
        _ = self.journal

    @functools.cached_property
    def sandbox(self) -> Sandbox:
        """The work directory, under the path that programs see."""
        return sandboxes.find(self.request.work)

    @functools.cached_property
    def journal(self) -> Journal:
        """Journal in the work directory."""
        return Journal(self.request.work)


@contextlib.contextmanager
def start(request: BuildRequest) -> Iterator[Workspace]:
    """Lock the work directory, also against programs that a killed build left running.

    Raises:
        TreeError: another build uses the directory.
        FileError: the file system refused.
    """
    with file_errors():
        # This fails rather than the build after an hour.
        outputs.make(request.logs, "give another directory with --work")
        outputs.make(request.output, "give another directory with --builddir")
        alone = locks.held(paths.from_native(request.work))
        with alone, locks.inherited(request.logs, "the compiler") as guard:
            yield Workspace(request, guard)
