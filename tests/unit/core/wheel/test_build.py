"""The order in which a build looks and makes, with stages that only take notes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.wheelhouse import make_request

from patchgen.cli.build import build as command
from patchgen.core import wheel as building
from patchgen.core.wheel import variables
from patchgen.core.wheel.check import ACCEPTABLE, check_build
from patchgen.core.wheel.values import Stage, WheelInputs
from patchgen.core.wheel.workspace import Making, Workspace
from patchgen.errors import CheckError, OptionsError, ToolError
from patchgen.system.checks import Check

BLAS = ACCEPTABLE["no-blas"]

FUNCTIONS = {
    "build_environment.make_lock": Stage.LOCK,
    "source_tree.fetch_source": Stage.SOURCE,
    "build_environment.make_build_environment": Stage.ENV,
    "source_tree.apply_patch": Stage.PATCH,
    "objects.compile_objects": Stage.COMPILE,
    "packing.pack_wheel": Stage.WHEEL,
    "verification.verify_wheel": Stage.VERIFY,
}
NAMES = [stage.value for stage in Stage][1:]  # with an interpreter of the user


def name_results(results: Sequence[object]) -> list[str]:
    """The names of earlier results, also of those that are the inputs of a wheel."""
    found: list[object] = []
    for one in results:
        found += [one.source, one.env, one.patched] if isinstance(one, WheelInputs) else [one]
    return [*map(str, found)]


def note(
    monkeypatch: pytest.MonkeyPatch,
    done: Sequence[str],
    row: Callable[[building.BuildRequest], Check] = lambda _: Check("git"),
) -> list[str]:
    """Replaces all stages by ones that take notes; those that are `done` make nothing.

    The result of each is its name.
    """
    notes: list[str] = []

    def noting(stage: Stage) -> Callable[..., Making[str]]:
        name = stage.value

        def stand_in(_: Workspace, *results: object) -> Making[str]:
            notes.append(f"look {' '.join([name, *name_results(results)])}")
            if name not in done:
                yield stage
                notes.append(f"make {name}")
            return name

        return stand_in

    def check(request: building.BuildRequest) -> list[Check]:
        notes.append("check")
        return [row(request)]

    for function, stage in FUNCTIONS.items():
        monkeypatch.setattr(f"patchgen.core.wheel.stages.{function}", noting(stage))
    for name, stand_in in {
        "check_build": check,
        "build_environment.read_variables": lambda *_: {},
        "delivery.deliver": lambda _, built: notes.append(f"deliver {built.wheel}"),
    }.items():
        monkeypatch.setattr(f"patchgen.core.wheel.{name}", stand_in)
    return notes


def test_variables_that_decide_what_is_compiled_are_recorded_or_dropped() -> None:
    """A conda environment has a compiler of its own."""
    modules = {"CPATH": "/i", "CPLUS_INCLUDE_PATH": "/j", "LIBRARY_PATH": "/l"}
    given = {**modules, "PKG_CONFIG_PATH": "/p", "HOME": "/h"}
    for conda, recorded in ((False, {*modules, "PKG_CONFIG_PATH"}), (True, {"PKG_CONFIG_PATH"})):
        found = variables.resolve({}, given, {}, conda=conda)
        assert {*found} == recorded
        seen = variables.make_environ(found, given, None)
        assert {*seen} & {*given} == {*recorded, "HOME"}


def test_variables_of_cmake_that_setup_py_sets_itself() -> None:
    given = {"CMAKE_INSTALL_PREFIX": "/p", "CMAKE_CONFIGURATION_TYPES": "A;B", "USE_MKLDNN": "0"}
    assert variables.resolve({}, given, {}, conda=False) == {"USE_MKLDNN": "0"}
    for generator, expected in (("Unix Makefiles", {"USE_NINJA": "0"}), ("Ninja", {})):
        named = {"CMAKE_GENERATOR": generator}
        assert variables.resolve({}, named, {}, conda=True) == expected
        assert variables.resolve({}, {}, named, conda=True) == expected
    with pytest.raises(OptionsError, match="--set CMAKE_INSTALL_PREFIX: is set by the build"):
        variables.parse(["CMAKE_INSTALL_PREFIX=/p"])


@pytest.mark.parametrize("name", ["environ", "settings"])
def test_variables_that_would_build_something_else_are_refused(tmp_path: Path, name: str) -> None:
    wanted = make_request(tmp_path)
    for given in ({"CMAKE_GENERATOR": "Ninja Multi-Config"}, {"CMAKE_TOOLCHAIN_FILE": "/t"}):
        (variable,) = given
        wrong = replace(wanted, **{name: given})  # type: ignore[arg-type]
        with pytest.raises(OptionsError, match=f"^{variable}="):
            wrong.validate()
        with pytest.raises(OptionsError, match=f"^{variable}="):
            check_build(wrong)


def build(monkeypatch: pytest.MonkeyPatch, directory: Path, done: Sequence[str]) -> list[str]:
    notes = note(monkeypatch, done)
    building.build(make_request(directory), lambda _: notes.append("plan"))
    return notes


def test_each_stage_gets_the_results_that_it_needs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert build(monkeypatch, tmp_path, []) == [
        "look source", "plan", "check", "make source",
        "look env None", "make env",
        "look patch source", "check", "make patch",
        "look compile source env patch", "make compile",
        "look wheel source env patch compile", "make wheel",
        "look verify env wheel", "make verify",
        "deliver wheel",
    ]  # fmt: skip


def test_a_later_stage_that_is_done_is_not_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Such as the patch, which the plan could not know of without an environment."""
    notes = build(monkeypatch, tmp_path, ["source", "patch"])
    assert [note for note in notes if note.startswith("make")] == [
        "make env", "make compile", "make wheel", "make verify"
    ]  # fmt: skip


def test_what_needs_no_check_is_not_checked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert "check" not in build(monkeypatch, tmp_path, ["source", "env", "patch", "compile"])


def locking(directory: Path) -> building.BuildRequest:
    """A request for a build that begins with its lock."""
    (directory / "environment.yml").touch()
    return replace(make_request(directory), python=None)


def test_it_is_checked_before_the_lock_is_made_and_when_more_is_known(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    notes = note(monkeypatch, [])
    plans: list[building.Plan] = []
    building.build(locking(tmp_path), plans.append)
    assert [name for name, _ in plans[0].stages] == ["lock", *NAMES]
    assert notes[:10] == [
        "look lock", "check", "make lock",
        "look source", "check", "make source",
        "look env lock", "make env",
        "look patch source", "check",
    ]  # fmt: skip
    assert notes.count("check") == 3


@pytest.mark.parametrize("known", range(3))
def test_nothing_is_made_after_what_is_found_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, known: int
) -> None:
    """Without a lock, with one, and with an environment."""
    calls: list[object] = []

    def find(_: building.BuildRequest) -> Check:
        calls.append(None)
        return Check("compiler", ("none",) if len(calls) > known else ())

    notes = note(monkeypatch, [], find)
    with pytest.raises(CheckError, match="compiler: none"):
        building.build(locking(tmp_path), lambda _: None)
    made = [entry for entry in notes if entry.startswith("make")]
    assert made == ["make lock", "make source", "make env"][: known and 2 * known - 1]


def test_a_program_without_which_no_stage_can_be_looked_at(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What else is missing is named with it."""
    missing: list[str] = ["not on PATH"]
    note(monkeypatch, [], lambda _: Check("git", tuple(missing)))

    def fail(_: Workspace) -> Making[str]:
        raise ToolError("git: No such file or directory")
        yield Stage.SOURCE

    monkeypatch.setattr("patchgen.core.wheel.stages.source_tree.fetch_source", fail)
    wanted = make_request(tmp_path)
    for begin in (building.plan, lambda request: building.build(request, lambda _: None)):
        missing[:] = ["not on PATH"]
        with pytest.raises(CheckError, match="git: not on PATH"):
            begin(wanted)
        missing.clear()
        with pytest.raises(ToolError, match="No such file"):
            begin(wanted)


def test_what_the_user_accepts_is_handed_to_check(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def find(request: building.BuildRequest) -> Check:
        return Check(BLAS, ("none",), required="no-blas" not in request.accepted)

    notes, wanted = note(monkeypatch, [], find), make_request(tmp_path)
    with pytest.raises(CheckError, match=f"{BLAS}: none"):
        building.build(wanted, lambda _: None)
    assert notes == ["look source", "check"]
    assert [row.name for row in building.plan(wanted).missing] == [BLAS]
    accepting = replace(wanted, accepted=("no-blas",))
    assert not building.plan(accepting).missing
    building.build(accepting, lambda _: None)
    assert notes[-1] == "deliver wheel"


def test_all_that_can_be_accepted_is_an_option() -> None:
    (option,) = (one for one in command.params if one.name == "accepted")
    kind: Any = option.type
    assert {*kind.choices} == {*ACCEPTABLE}
