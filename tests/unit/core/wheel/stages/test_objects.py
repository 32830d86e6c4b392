"""Objects that a compilation finds, where inputs have changed or the last one was stopped."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.wheelhouse import INPUTS, PIN, drive, make_request

from patchgen.core.patch import patches
from patchgen.core.source import Source
from patchgen.core.wheel import setup_py
from patchgen.core.wheel.sandbox import HOST, Sandbox
from patchgen.core.wheel.stages import objects
from patchgen.core.wheel.values import BuildEnvironment, Patched, Stage, WheelInputs
from patchgen.core.wheel.workspace import Workspace
from patchgen.options import resolve
from patchgen.system import statement

OBJECT, CACHE, VERSION = "build/a.o", "build/CMakeCache.txt", "torch/version.py"
COPY, LIBRARY = "build/lib.linux/torch/old.py", "torch/lib/libtorch.so"
WRITTEN = {OBJECT, CACHE, VERSION, COPY, LIBRARY}
"""Files that a build writes, and git ignores."""
ALL = WRITTEN - {COPY}


def toolchain(identity: str) -> Any:
    return SimpleNamespace(identity=identity)


ENV = replace(INPUTS.env, toolchain=toolchain("gcc 12"), lock="1", variables={"USE_CUDA": "0"})


@dataclass(frozen=True)
class Inputs:
    """Inputs of a compilation."""

    source: Source = INPUTS.source
    env: BuildEnvironment = ENV
    patched: Patched = INPUTS.patched
    seen: str = "/build"
    """Path of the work directory for programs."""
    debug: bool = False


FIRST = Inputs()


class Objects:
    """A work directory, and a setup.py that notes which files it finds."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory = directory
        self.source = Path(make_request(directory).source)
        self.found: list[set[str]] = []
        self.compiles: Callable[[], None] = lambda: None
        self.source.mkdir(parents=True)
        subprocess.run(["git", "init", "-q", self.source], check=True)
        (self.source / ".gitignore").write_text("".join(f"{name}\n" for name in WRITTEN))
        monkeypatch.setattr(setup_py, "run_setup", self._run)

    def _run(self, *_: object) -> str:
        self.found.append({name for name in WRITTEN if (self.source / name).exists()})
        self.compiles()
        for name in WRITTEN:
            (self.source / name).parent.mkdir(parents=True, exist_ok=True)
            (self.source / name).touch()
        return HOST

    def compile(self, inputs: Inputs = FIRST) -> list[Stage]:
        request = make_request(self.directory)
        workspace = Workspace(
            replace(request, patch=patches.make(resolve({"debug": inputs.debug}, {}, "/"), PIN))
        )
        sandbox = Sandbox(request.work, inputs.seen, "no namespaces")
        workspace.__dict__["sandbox"] = sandbox
        found = WheelInputs(workspace.request, sandbox, inputs.source, inputs.env, inputs.patched)
        return drive(objects.compile_objects(workspace, found))[0]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Objects:
    return Objects(tmp_path, monkeypatch)


def with_env(**values: Any) -> Inputs:
    return replace(FIRST, env=replace(FIRST.env, **values))


def with_source(**values: Any) -> Inputs:
    return replace(FIRST, source=replace(FIRST.source, **values))


def with_patched(**values: Any) -> Inputs:
    return replace(FIRST, patched=replace(FIRST.patched, **values))


CHANGES: dict[str, tuple[Inputs, set[str]]] = {
    "toolchain": (with_env(toolchain=toolchain("gcc 13")), set()),
    "lock": (with_env(lock="2"), set()),
    "commit": (with_source(pin=PIN._replace(commit="9" * 40)), set()),
    "submodules": (with_source(left_out=["third_party/x"]), set()),
    "path": (replace(FIRST, seen="/other"), set()),
    "variables": (with_env(variables={"USE_CUDA": "1"}), {OBJECT}),
    "version": (replace(FIRST, debug=True), ALL - {VERSION}),
    "patch": (with_patched(patch=patches.make(resolve({"rdma": True}, {}, "/"), PIN)), ALL),
    "client": (with_patched(client=[statement.describe_file("a.h", "6" * 64)]), ALL),
}
"""Other inputs than the first ones, and the files that are kept for them."""


@pytest.mark.parametrize("changed", CHANGES)
def test_what_changed_decides_which_objects_are_kept(work: Objects, changed: str) -> None:
    other, kept = CHANGES[changed]
    assert work.compile() == [Stage.COMPILE]
    assert work.compile(other) == [Stage.COMPILE]
    assert work.found == [set(), kept]
    assert work.compile(other) == []


def test_what_changes_no_object_compiles_nothing(work: Objects) -> None:
    work.compile()
    assert work.compile() == []
    assert work.compile(with_env(variables={"USE_CUDA": "0", "VERBOSE": "1"})) == []


def stop(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_a_compilation_that_was_stopped_goes_on(work: Objects) -> None:
    """Also with the inputs of the one before it, whose objects it may have replaced."""
    other = with_patched(patch=patches.make(resolve({"rdma": True}, {}, "/"), PIN))
    for again in (other, FIRST):
        work.compiles = lambda: None
        work.compile()
        work.compiles = stop
        with pytest.raises(KeyboardInterrupt):
            work.compile(other)
        with pytest.raises(KeyboardInterrupt):
            work.compile(again)


def test_objects_that_were_removed_in_part_are_all_removed(
    work: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    work.compile()
    other = with_env(toolchain=toolchain("gcc 13"))
    with monkeypatch.context() as patch:
        patch.setattr(objects, "_clean", stop)
        with pytest.raises(KeyboardInterrupt):
            work.compile(other)
    work.compile(other)
    assert work.found == [set(), set()]


def test_a_directory_of_objects_that_is_gone_is_made_again(work: Objects) -> None:
    work.compile()
    shutil.rmtree(work.source / "build")
    assert work.compile() == [Stage.COMPILE]
