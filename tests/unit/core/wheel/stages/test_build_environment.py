"""A prefix that serves, is completed, or is made again."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.wheelhouse import drive, make_request

from patchgen.core.wheel.conda import marker
from patchgen.core.wheel.conda.marker import Marker
from patchgen.core.wheel.sandbox import Sandbox
from patchgen.core.wheel.stages import build_environment
from patchgen.core.wheel.values import Stage
from patchgen.core.wheel.workspace import Workspace

prefix = pytest.importorskip(
    "patchgen.core.wheel.conda.prefix", reason="comes with the extra `env`"
)
NAMED = "/build/env"


@dataclass(frozen=True)
class Noting:
    """A sandbox that takes notes."""

    notes: list[str]

    def path(self, _: str) -> str:
        return NAMED

    def reveal(self, path: str) -> str:
        self.prepare_threads()
        return self.path(path)

    def prepare_threads(self) -> None:
        self.notes.append("prepare")


def test_the_sandbox_is_prepared_before_threads_of_py_rattler_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ordinary user's process could not be given mounts any more."""
    from patchgen.core.wheel.conda import lockfile, locking

    notes: list[str] = []
    lock: Any = SimpleNamespace(identity="1")
    monkeypatch.setattr(locking, "make_lock", lambda *_, **__: notes.append("lock"))
    monkeypatch.setattr(prefix, "create_prefix", lambda *_: notes.append("prefix"))
    monkeypatch.setattr(lockfile, "read", lambda _: lock)
    monkeypatch.setattr(lockfile, "stale", lambda *_: None)
    workspace = Workspace(replace(make_request(tmp_path), python=None))
    workspace.__dict__["sandbox"] = Noting(notes)
    making = build_environment.make_lock(workspace)
    assert next(making) is Stage.LOCK
    assert not notes, "a plan ends here"
    assert drive(making) == ([], lock)
    assert drive(build_environment._make_prefix(workspace, lock))[0] == [Stage.ENV]
    assert notes == ["prepare", "lock", "prepare", "prefix"]


@pytest.mark.parametrize(
    ("found", "made", "kept"),
    [
        (None, [Stage.ENV], False),
        (Marker("1", whole=True, named=NAMED), [], True),
        (Marker("1", named=NAMED), [Stage.ENV], True),
        (Marker("2", whole=True, named=NAMED), [Stage.ENV], False),
        (Marker("1", whole=True), [Stage.ENV], False),
    ],
    ids=["none", "whole", "half", "other lock", "other path"],
)
def test_a_prefix_serves_if_it_is_whole_and_of_this_lock(
    *,
    found: Marker | None,
    made: list[Stage],
    kept: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    request = make_request(tmp_path)
    seen: list[Marker | None] = []

    def create(_: object, where: str, *rest: object) -> None:
        seen.append(marker.read(where))
        assert rest[-1] == NAMED

    monkeypatch.setattr(prefix, "create_prefix", create)
    monkeypatch.setattr("patchgen.core.wheel.conda.lockfile.stale", lambda *_: None)
    if found is not None:
        os.makedirs(request.prefix)
        marker.write(request.prefix, found)
    workspace, lock = Workspace(request), SimpleNamespace(identity="1")
    workspace.__dict__["sandbox"] = Sandbox(request.work, "/build", "no namespaces")
    given: Any = (workspace, lock)
    assert drive(build_environment._make_prefix(*given))[0] == made
    assert seen == [found if kept else None] * len(made)
