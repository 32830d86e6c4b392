"""The order in which a build looks and makes, with stages that only take notes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from patchgen.cli.build import build as command
from patchgen.core import wheel as building
from patchgen.core.patch import pins
from patchgen.core.wheel.check.accepted import ACCEPTABLE
from patchgen.core.wheel.stages import STAGES, Stage
from patchgen.errors import CheckError
from patchgen.options import resolve
from patchgen.system.checks import Check

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from patchgen.core.wheel.check import Site

NAMES = [stage.name for stage in STAGES if stage.name != "lock"]  # with an interpreter of the user


class Stand:
    """Result of a stage, as far as anybody looks into it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.variables: dict[str, str] = {}


def request(directory: Path) -> building.Request:
    return building.Request(
        pin=pins.find(pins.DEFAULT, pins.shipped()),
        options=resolve({}, {}, str(directory)),
        work=f"{directory}/work",
        output=f"{directory}/output",
        python="/usr/bin/python3",
        lock=f"{directory}/conda-lock.yml",
        environment=f"{directory}/environment.yml",
        cache=f"{directory}/cache",
        environ={},
    )


def note(monkeypatch: pytest.MonkeyPatch, done: Sequence[str]) -> list[str]:
    """Replaces all stages by ones that take notes; those that are `done` say so."""
    notes: list[str] = []

    def noting(what: str, name: str, made: Stand | None) -> Callable[..., Stand | None]:
        def stand_in(*_: object) -> Stand | None:
            notes.append(f"{what} {name}")
            return made

        return stand_in

    stages = tuple(
        Stage(
            stage.name,
            noting("look", stage.name, Stand(stage.name) if stage.name in done else None),
            noting("make", stage.name, Stand(stage.name)),
            checked=stage.checked,
        )
        for stage in STAGES
    )
    monkeypatch.setattr("patchgen.core.wheel.stages.STAGES", stages)
    for name, stand_in in {
        "find_missing": lambda _: notes.append("check"),
        "sbom.require": lambda: None,
        "environment.variables_of": lambda *_: {},
        "delivery.deliver": lambda session: notes.append(f"deliver {session.wheel.name}"),
    }.items():
        monkeypatch.setattr(f"patchgen.core.wheel.{name}", stand_in)
    return notes


def build(monkeypatch: pytest.MonkeyPatch, directory: Path, done: Sequence[str]) -> list[str]:
    notes = note(monkeypatch, done)
    building.build(request(directory), lambda _: notes.append("plan"))
    return notes


def test_each_stage_is_looked_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first, rest = NAMES[0], NAMES[1:]
    made = [note for name in rest for note in (f"look {name}", f"make {name}")]
    assert build(monkeypatch, tmp_path, []) == [
        f"look {first}", "plan", "check", f"make {first}", *made, "deliver wheel"
    ]  # fmt: skip


def test_what_is_done_is_looked_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    looks = [f"look {name}" for name in NAMES]
    assert build(monkeypatch, tmp_path, NAMES) == [*looks, "plan", "deliver wheel"]


def test_a_later_stage_that_is_done_is_not_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Such as the patch, which the plan could not know of without an environment."""
    notes = build(monkeypatch, tmp_path, ["source", "patch"])
    assert [note for note in notes if note.startswith("make")] == [
        "make env", "make compile", "make wheel", "make verify"
    ]  # fmt: skip
    assert len([note for note in notes if note.startswith("look")]) == len(NAMES)


def test_what_needs_no_check_is_not_checked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert "check" not in build(monkeypatch, tmp_path, ["source", "env", "patch", "compile"])


def test_without_a_lock_the_first_stage_makes_one_and_the_check_comes_after(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    notes = note(monkeypatch, [])
    (tmp_path / "environment.yml").touch()
    asked = replace(request(tmp_path), python=None)
    plans: list[building.Plan] = []
    building.build(asked, plans.append)
    assert [name for name, _ in plans[0].stages] == ["lock", *NAMES]
    assert notes[:5] == ["look lock", "make lock", "look source", "check", "make source"]


def test_a_plan_is_whole_though_nothing_is_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    notes = note(monkeypatch, [])
    (tmp_path / "environment.yml").touch()
    found = building.plan(replace(request(tmp_path), python=None))
    assert found.stages == tuple((name, False) for name in ("lock", *NAMES))
    assert notes == ["look lock"]
    assert not (tmp_path / "work").exists()


def test_what_the_user_accepts_is_handed_to_check(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sites = []

    def run(_options: object, _pin: object, site: Site) -> list[Check]:
        sites.append(site)
        return [Check("BLAS and LAPACK", ("none",), required="no-blas" not in site.accepted)]

    monkeypatch.setattr("patchgen.core.wheel.preflight.run", run)
    asked = request(tmp_path)
    with pytest.raises(CheckError, match="BLAS and LAPACK: none"):
        building.refuse_missing(building.find_missing(asked))
    assert building.find_missing(replace(asked, accepted=("no-blas",))) == []
    assert [sorted(site.accepted) for site in sites] == [[], ["no-blas"]]


def test_all_that_can_be_accepted_is_an_option() -> None:
    (option,) = (one for one in command.params if one.name == "accepted")
    kind: Any = option.type
    assert {*kind.choices} == {*ACCEPTABLE}
