"""source --without: to go without some of the submodules."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from support.source import World
from support.trees import FLAGS, git, tool

from patchgen.core import source

GLOO, INNER, TBB = "third_party/gloo", "third_party/gloo/deps/inner", "third_party/tbb"


def test_a_submodule_is_left_out_from_then_on(world: World, tree: Path) -> None:
    done = world.run(tree, "--without", f"./{TBB}/", "--json")
    data = json.loads(done.stdout)
    assert data["left_out"] == [TBB]
    assert {one["path"] for one in data["repositories"]} == {"", GLOO, INNER}
    assert not [*(tree / TBB).iterdir()]
    world.offline()
    assert "2 submodules, 1 left out, verified; 0 repositories fetched" in world.run(tree).stderr
    assert git(tree, "status", "--porcelain") == ""


def test_one_that_is_left_out_is_not_missing_to_the_other_commands(
    world: World, tree: Path
) -> None:
    world.run(tree, "--without", INNER)
    found = source.find(str(tree), world.pin)
    assert found is not None, "build would fetch it"
    assert found.left_out == [INNER]
    assert {*found.commits} == {*found.addresses} == {"", GLOO, TBB}
    assert str(found.epoch) == git(tree, "log", "-1", "--format=%ct")
    tool("apply", str(tree), "--pytorch", world.pin_file, *FLAGS)
    done = tool("status", str(tree), "--pytorch", world.pin_file)
    assert "patched" in done.stdout
    # git itself goes without it as well
    git(tree / GLOO, "submodule", "update")
    assert not [*(tree / INNER).iterdir()]


def test_all_brings_what_was_left_out(world: World, tree: Path) -> None:
    world.run(tree, "--without", TBB, "--without", INNER)
    assert "2 repositories fetched" in world.run(tree, "--all").stderr
    world.check(tree)
    shutil.rmtree(tree / TBB)
    world.fetch(tree)


def test_one_that_is_there_stays_and_is_verified(world: World, tree: Path) -> None:
    world.run(tree)
    assert "3 submodules, verified" in world.run(tree, "--without", TBB).stderr
    (tree / TBB / "file.txt").write_text("own work\n")
    assert TBB in world.run(tree, code=3).stderr
    shutil.rmtree(tree / TBB)
    assert "2 submodules, 1 left out" in world.run(tree).stderr


def test_what_cannot_be_left_out_is_refused_before_more_is_fetched(
    world: World, tree: Path
) -> None:
    for path, reason in (
        (GLOO, "does not start without third_party/gloo/file.txt"),
        ("third_party/tb", "no submodule"),
        (f"{TBB}/file.txt", "no submodule"),
        (f"{GLOO}/deps/none", "no submodule"),
    ):
        output = world.run(tree, "--without", path, code=2).stderr
        assert path in output
        assert reason in output
        assert not (tree / INNER / "file.txt").exists()
    world.fetch(tree)
