"""The stages of a build that fetch a source and patch it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.source import World
from support.wheelhouse import drive, make_request

from patchgen.core.patch import patches, state
from patchgen.core.wheel.stages.source_tree import apply_patch, fetch_source
from patchgen.core.wheel.values import Stage
from patchgen.core.wheel.workspace import Workspace
from patchgen.errors import TreeError


def test_a_tree_is_inspected_once_for_all_stages(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = make_request(tmp_path)
    wanted = replace(wanted, patch=patches.make(wanted.options, world.pin))
    workspace = Workspace(wanted)
    assert drive(fetch_source(workspace))[0] == [Stage.SOURCE]
    inspected: list[str] = []
    read_new_files = state._new

    def count(root: str, *pins: Any) -> Any:
        inspected.append(root)
        return read_new_files(root, *pins)

    monkeypatch.setattr(state, "_new", count)
    made, source = drive(fetch_source(workspace))
    assert made == []
    assert drive(apply_patch(workspace, source))[0] == [Stage.PATCH]
    assert inspected == [wanted.source]
    assert state.inspect(wanted.source, (wanted.pin,)).overall is state.Overall.PATCHED


def test_a_tree_that_was_changed_since_it_was_inspected_is_not_patched(
    world: World, tmp_path: Path
) -> None:
    wanted = make_request(tmp_path)
    wanted = replace(wanted, patch=patches.make(wanted.options, world.pin))
    workspace = Workspace(wanted)
    _, source = drive(fetch_source(workspace))
    hooked = Path(wanted.source, world.pin.files[0].path)
    hooked.write_text("edited\n")
    with pytest.raises(TreeError, match=f"{world.pin.files[0].path}: changed by somebody else"):
        drive(apply_patch(workspace, source))
    assert hooked.read_text() == "edited\n"
    assert not any(Path(wanted.source, path).exists() for path in wanted.patch.added)
