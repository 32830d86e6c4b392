"""A tree that is patched again, and what is recorded of its client library."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.trees import Tree, make
from support.wheelhouse import INPUTS, drive, make_request

from patchgen.core import source as sources
from patchgen.core.library import homes, origin
from patchgen.core.library.archive import Archive
from patchgen.core.patch import patches, render, state, tree
from patchgen.core.wheel.request import BuildRequest
from patchgen.core.wheel.stages.source_tree import apply_patch, fetch_source
from patchgen.core.wheel.values import Patched, Stage
from patchgen.core.wheel.workspace import Workspace
from patchgen.options import resolve

HEADER = "include/switchml/context.h"


@pytest.fixture
def wanted(tmp_path: Path) -> BuildRequest:
    """A request for a tree that is there, with a client library in its home."""
    request = make_request(tmp_path)
    made: Tree = make(Path(request.source))
    home = Path(request.options.switchml_home)
    for name in (homes.ARCHIVE, HEADER):
        (home / name).parent.mkdir(parents=True)
        (home / name).write_text(name)
    return replace(request, patch=patches.make(request.options, made.pin))


def read_archive(_: str) -> Archive:
    return Archive((), timeouts=True, cxx11_abi=True)


def patch(request: BuildRequest) -> tuple[list[Stage], Patched]:
    found = state.inspect(request.source, (request.pin,))
    return drive(apply_patch(Workspace(request), replace(INPUTS.source, tree=found)))


def overall(request: BuildRequest) -> state.Overall:
    return state.inspect(request.source, (request.pin,)).overall


def test_a_tree_with_other_options_is_patched_again(wanted: BuildRequest) -> None:
    made, patched = patch(wanted)
    assert made == [Stage.PATCH]
    assert patch(wanted) == ([], patched)
    home = wanted.options.switchml_home
    options = resolve({"debug": True, "switchml_home": home}, {}, home)
    other = replace(wanted, patch=patches.make(options, wanted.pin))
    made, again = patch(other)
    assert made == [Stage.PATCH]
    assert again.patch != patched.patch
    assert state.inspect(other.source, (other.pin,)).options == other.options


def test_a_build_renders_its_patch_when_it_is_requested_only(
    wanted: BuildRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        pytest.fail("rendered again")

    for name in ("hooks", "new_files"):
        monkeypatch.setattr(render, name, refuse)
    _, patched = patch(wanted)
    assert patched.patch is wanted.patch
    assert overall(wanted) is state.Overall.PATCHED


def test_each_file_of_the_client_library_is_recorded(
    wanted: BuildRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("patchgen.core.library.archive.read", read_archive)
    home = Path(wanted.options.switchml_home)
    _, first = patch(wanted)
    assert {*(str(one["name"]) for one in first.client)} == {origin.ARCHIVE, "include/switchml"}
    seen = [first.client]
    for name in (homes.ARCHIVE, HEADER, homes.MODULE):
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_text("other")
        seen.append(patch(wanted)[1].client)
    assert all(found not in seen[:at] for at, found in enumerate(seen))
    (home / homes.ARCHIVE).unlink()
    assert not patch(wanted)[1].client, "check reports it"


def test_a_tree_that_is_patched_in_part_is_reverted_first(
    wanted: BuildRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a build that was killed between two files."""
    hooked = Path(wanted.source, wanted.pin.files[0].path)
    before = hooked.read_bytes()
    tree.apply(wanted.source, wanted.options, (wanted.pin,))
    hooked.write_bytes(before)
    assert overall(wanted) is state.Overall.PARTLY
    found: Any = object()

    def obtain(*_: object) -> Any:
        assert overall(wanted) is state.Overall.CLEAN
        return found

    monkeypatch.setattr(sources, "obtain", obtain)
    assert drive(fetch_source(Workspace(wanted))) == ([Stage.SOURCE], found)
