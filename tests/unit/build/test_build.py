"""The order in which a build looks and makes, with stages that only take notes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from patchgen import build as building
from patchgen.build.stages import STAGES, Stage
from patchgen.checks import Check
from patchgen.errors import CheckError
from patchgen.options import resolve
from patchgen.patch import pins

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from patchgen.build.check import Site
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


def test_what_the_user_accepts_is_handed_to_check(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sites = []

    def run(_options: object, _pin: object, site: Site) -> list[Check]:
        sites.append(site)
        return [Check("BLAS and LAPACK", ("none",), required="no-blas" not in site.accepted)]

    monkeypatch.setattr("patchgen.build.preflight.run", run)
    request = building.Request(
        pin=pins.find(pins.DEFAULT, pins.shipped()),
        options=resolve({}, {}, str(tmp_path)),
        work=f"{tmp_path}/work",
        output=f"{tmp_path}/output",
        python="/usr/bin/python3",
        lock="",
        cache=f"{tmp_path}/cache",
        environ={},
    )
    with pytest.raises(CheckError, match="BLAS and LAPACK: none"):
        building._check(request)
    building._check(replace(request, accepted=("no-blas",)))
    assert [sorted(site.accepted) for site in sites] == [[], ["no-blas"]]
