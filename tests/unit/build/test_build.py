"""The order in which a build looks and makes, with stages that only take notes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from patchgen import build as building
from patchgen.build.stages import STAGES, Stage
from patchgen.options import resolve
from patchgen.patch import pins

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pytest

    from patchgen.build.context import Context

NAMES = [stage.name for stage in STAGES]


def noting(notes: list[str], done: Sequence[str]) -> tuple[Stage, ...]:
    """Stages of the real names; those that are `done` say so when they are looked at."""

    def make(name: str) -> Stage:
        made = {"by": name}

        def look(context: Context) -> dict[str, Any] | None:
            assert [*context.made] == NAMES[: NAMES.index(name)]
            notes.append(f"look {name}")
            return made if name in done else None

        def run(_: Context) -> dict[str, Any]:
            notes.append(f"run {name}")
            return made

        return Stage(name, look, run)

    return tuple(map(make, NAMES))


def build(monkeypatch: pytest.MonkeyPatch, directory: Path, done: Sequence[str]) -> list[str]:
    notes: list[str] = []
    for name, stand_in in {
        "STAGES": noting(notes, done),
        "_check": lambda _: notes.append("check"),
        "sbom.require": lambda: None,
        "delivery.deliver": lambda _: notes.append("deliver"),
    }.items():
        monkeypatch.setattr(f"patchgen.build.{name}", stand_in)
    request = building.Request(
        pin=pins.find(pins.DEFAULT, pins.shipped()),
        options=resolve({}, {}, str(directory)),
        work=f"{directory}/work",
        output=f"{directory}/output",
        python="/usr/bin/python3",
        lock="",
        cache=f"{directory}/cache",
        environ={},
    )
    building.build(request, lambda _: None, lambda _: None, lambda *_: None)
    return notes


def test_each_stage_is_looked_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first, rest = NAMES[0], NAMES[1:]
    made = [note for name in rest for note in (f"look {name}", f"run {name}")]
    assert build(monkeypatch, tmp_path, []) == [
        f"look {first}", "check", f"run {first}", *made, "deliver"
    ]  # fmt: skip


def test_what_is_done_is_looked_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    looks = [f"look {name}" for name in NAMES]
    assert build(monkeypatch, tmp_path, NAMES) == [*looks, "deliver"]


def test_a_later_stage_that_is_done_is_not_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As the patch, of which the plan could not know while there was no environment."""
    notes = build(monkeypatch, tmp_path, ["source", "patch"])
    assert [note for note in notes if note.startswith("run")] == [
        "run env", "run compile", "run wheel", "run verify"
    ]  # fmt: skip
    assert len([note for note in notes if note.startswith("look")]) == len(NAMES)
