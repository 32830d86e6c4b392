"""A wheel that is packed again, or kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.wheelhouse import INPUTS, Fake, drive, make_request

from patchgen.core.wheel import setup_py
from patchgen.core.wheel.sandbox import HOST, Sandbox
from patchgen.core.wheel.stages import packing
from patchgen.core.wheel.values import BuiltWheel, Objects, Stage
from patchgen.core.wheel.workspace import Workspace
from patchgen.system import statement

OBJECTS = Objects("of all")


class Packing:
    """A work directory, and a setup.py that packs a small wheel."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.request = make_request(directory)
        self.rough = Path(self.request.work, "dist")
        os.mkdir(self.request.work)
        monkeypatch.setattr(setup_py, "run_setup", self._run)
        monkeypatch.setattr(packing, "_compose_sbom", lambda *_: b"{}")

    def _run(self, *_: object) -> str:
        Fake("torch", "1").write(self.rough)
        return HOST

    def pack(self, objects: Objects = OBJECTS) -> tuple[list[Stage], BuiltWheel]:
        workspace = Workspace(self.request)
        workspace.__dict__["sandbox"] = Sandbox(self.request.work, "/build", "no namespaces")
        return drive(packing.pack_wheel(workspace, INPUTS, objects))


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Packing:
    return Packing(tmp_path, monkeypatch)


def test_a_wheel_of_other_objects_is_packed_again(work: Packing) -> None:
    made, wheel = work.pack()
    assert made == [Stage.WHEEL]
    assert work.pack() == ([], wheel)
    assert work.pack(Objects("others"))[0] == [Stage.WHEEL]
    assert not work.rough.exists()


def test_a_wheel_by_another_version_of_the_tool_is_packed_again(
    work: Packing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its provenance names the version of now, and a rebuild by that has to give its bytes."""
    _, wheel = work.pack()
    monkeypatch.setattr(statement, "describe_builder", lambda: {"switchml-patch": "99"})
    assert work.pack() == ([Stage.WHEEL], wheel)


def test_a_wheel_that_is_damaged_or_gone_is_packed_again(work: Packing) -> None:
    _, wheel = work.pack()
    file = Path(work.request.wheels, wheel.name)
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert work.pack() == ([Stage.WHEEL], wheel)
    assert file.read_bytes() == content
    file.unlink()
    assert work.pack() == ([Stage.WHEEL], wheel)


def test_wheels_of_a_run_that_was_stopped_are_in_nobodys_way(work: Packing) -> None:
    for directory in (work.rough, Path(work.request.wheels)):
        Fake("torch", "0").write(directory)
    assert work.pack()[1].name.startswith("torch-1-")
    assert len(os.listdir(work.request.wheels)) == 1
