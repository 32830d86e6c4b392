"""source --list and --without: which repositories are needed, and to go without some."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest
from support.source import GITHUB, World, serve, stalled
from support.trees import FLAGS, git, tool
from support.waiting import read_rest

from patchgen.core import source

GLOO, INNER, TBB = "third_party/gloo", "third_party/gloo/deps/inner", "third_party/tbb"


def listed(
    world: World, tree: Path, *arguments: str, code: int = 0
) -> dict[str, dict[str, object]]:
    done = world.run(tree, "--list", "--json", *arguments, code=code)
    return {one["path"]: one for one in json.loads(done.stdout)}


def states(world: World, tree: Path, *arguments: str) -> dict[str, object]:
    return {path: one["state"] for path, one in listed(world, tree, *arguments).items()}


# ---- what is needed


def test_all_repositories_are_listed_before_one_is_there(world: World, tmp_path: Path) -> None:
    found = listed(world, tmp_path / "t")
    assert {path: one["commit"] for path, one in found.items()} == {
        "": world.pin.commit, **world.commits,
    }  # fmt: skip
    assert {path: one["addresses"] for path, one in found.items()} == {
        "": [f"{GITHUB}pytorch/pytorch.git"],
        GLOO: [f"{GITHUB}facebookincubator/gloo", f"{GITHUB}pytorch/gloo.git"],
        INNER: [f"{GITHUB}facebookincubator/inner.git"],
        TBB: [f"{GITHUB}01org/tbb", f"{GITHUB}uxlfoundation/oneTBB.git",
              f"{GITHUB}oneapi-src/oneTBB.git"],
    }  # fmt: skip
    assert found[TBB]["name"] == "01org+tbb"
    assert {one["state"] for one in found.values()} == {"absent"}
    assert all(one["complete"] for one in found.values())
    assert not (tmp_path / "t").exists()


def test_what_was_listed_is_listed_again_without_a_network(world: World, tmp_path: Path) -> None:
    found = listed(world, tmp_path / "t")
    world.offline()
    assert listed(world, tmp_path / "t") == found
    elsewhere = ("--cache", str(tmp_path / "cache"))
    done = world.run(tmp_path / "t", "--list", *elsewhere, code=4)
    assert done.stdout == ""
    assert "--mirror" in done.stderr
    assert listed(world, tmp_path / "t", *elsewhere, "--mirror", f"file://{world.served}") == found


def test_lines_for_people_say_path_commit_and_address(world: World, tmp_path: Path) -> None:
    done = world.run(tmp_path / "t", "--list")
    lines = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()}
    assert lines[TBB] == [world.commits[TBB], f"{GITHUB}01org/tbb", "absent"]
    assert lines["."] == [world.pin.commit, f"{GITHUB}pytorch/pytorch.git", "absent"]


def test_a_tree_is_listed_from_what_is_there(world: World, tmp_path: Path) -> None:
    tree = tmp_path / "t"
    world.run(tree)
    shutil.rmtree(tree / TBB)
    world.offline()
    expected = {"": "present", GLOO: "present", INNER: "present", TBB: "absent"}
    assert states(world, tree) == expected
    git(tree / INNER, "commit", "-q", "--allow-empty", "-m", "own work")
    assert states(world, tree) == {**expected, INNER: "absent"}
    done = world.run(tree, "--list", cwd=str(tree))
    here = world.source("--list", "--pytorch", world.pin_file, cwd=str(tree))
    assert here.stdout == done.stdout
    told = world.source("--pytorch", world.pin_file, cwd=str(tree), code=2)
    assert "Missing option '-o'" in told.stderr


def test_what_is_in_one_that_cannot_be_had_is_not_known(world: World, tmp_path: Path) -> None:
    with world.without("gloo.git"):
        done = world.run(tmp_path / "t", "--list", "--json", code=4)
    found = {one["path"]: one for one in json.loads(done.stdout)}
    assert {path: one["complete"] for path, one in found.items()} == {"": True, GLOO: False,
                                                                     TBB: True}  # fmt: skip
    assert f"{GLOO} {world.commits[GLOO][:12]}" in done.stderr
    assert "--mirror" in done.stderr


def test_a_list_fetches_no_files(world: World, tmp_path: Path) -> None:
    for path in world.served.glob("*/*.git"):
        git(path, "config", "uploadpack.allowFilter", "true")
    with serve(world.served) as server:
        world.route(server.url)
        world.run(tmp_path / "t", "--list", "--cache", str(tmp_path / "cache"))
    clone = tmp_path / "cache/git" / f"{world.pin.commit}.git"
    lacking = git(clone, "rev-list", "--objects", "--no-walk", "--missing=print", world.pin.commit)
    files = git(world.served / "pytorch/pytorch.git", "ls-tree", "-r", "--name-only",
                world.pin.commit).splitlines()  # fmt: skip
    assert lacking.count("?") >= len({*files} - {".gitmodules", "setup.py", GLOO, TBB}) > 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_list_that_is_stopped_leaves_no_half_of_a_clone(
    world: World, tmp_path: Path, number: signal.Signals
) -> None:
    arguments = ("--list", "--cache", str(tmp_path / "cache"))
    with stalled(world, tmp_path / "t", *arguments, at="/git-upload-pack") as run:
        run.running.send_signal(number)
        read_rest(run.running)
        assert run.running.returncode == (130 if number == signal.SIGINT else -number)
    clones = tmp_path / "cache/git"
    assert not [path for path in clones.iterdir() if path.suffix == ".git"]
    assert number == signal.SIGKILL or not [*clones.iterdir()]
    world.route(f"file://{world.served}")
    world.run(tmp_path / "t", *arguments)
    assert len([path for path in clones.iterdir() if path.suffix == ".git"]) == 4


# ---- to go without


def test_a_submodule_is_left_out_from_then_on(world: World, tmp_path: Path) -> None:
    tree = tmp_path / "t"
    done = world.run(tree, "--without", f"./{TBB}/", "--json")
    data = json.loads(done.stdout)
    assert data["left_out"] == [TBB]
    assert {one["path"] for one in data["repositories"]} == {"", GLOO, INNER}
    assert not [*(tree / TBB).iterdir()]
    world.offline()
    assert "2 submodules, 1 left out, verified; 0 repositories fetched" in world.run(tree).stderr
    assert states(world, tree)[TBB] == "left out"
    assert git(tree, "status", "--porcelain") == ""


def test_one_that_is_left_out_is_not_missing_to_the_other_commands(
    world: World, tmp_path: Path
) -> None:
    tree = tmp_path / "t"
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


def test_all_brings_what_was_left_out(world: World, tmp_path: Path) -> None:
    tree = tmp_path / "t"
    world.run(tree, "--without", TBB, "--without", INNER)
    assert states(world, tree, "--all")[TBB] == "absent"
    assert "2 repositories fetched" in world.run(tree, "--all").stderr
    world.check(tree)
    shutil.rmtree(tree / TBB)
    world.run(tree)
    world.check(tree)


def test_one_that_is_there_stays_and_is_verified(world: World, tmp_path: Path) -> None:
    tree = tmp_path / "t"
    world.run(tree)
    assert "3 submodules, verified" in world.run(tree, "--without", TBB).stderr
    (tree / TBB / "file.txt").write_text("own work\n")
    assert TBB in world.run(tree, code=3).stderr
    shutil.rmtree(tree / TBB)
    assert "2 submodules, 1 left out" in world.run(tree).stderr


def test_what_cannot_be_left_out_is_refused_before_more_is_fetched(
    world: World, tmp_path: Path
) -> None:
    tree = tmp_path / "t"
    for path, reason in (
        (GLOO, "does not start without third_party/gloo/file.txt"),
        ("third_party/tb", "no submodule"),
        (f"{TBB}/file.txt", "no submodule"),
        (f"{GLOO}/deps/none", "no submodule"),
    ):
        told = world.run(tree, "--without", path, code=2).stderr
        assert path in told
        assert reason in told
        assert not (tree / INNER / "file.txt").exists()
        told = world.run(tmp_path / "none", "--list", "--without", path, code=2).stderr
        assert reason in told
    world.run(tree)
    world.check(tree)


def test_a_plan_without_some_is_listed_and_not_recorded(world: World, tmp_path: Path) -> None:
    tree = tmp_path / "t"
    world.run(tree, "--without", INNER)
    assert states(world, tree, "--without", TBB) == {
        "": "present", GLOO: "present", INNER: "left out", TBB: "present",
    }  # fmt: skip
    shutil.rmtree(tree / TBB)
    assert states(world, tree, "--without", TBB)[TBB] == "left out"
    assert states(world, tree)[TBB] == "absent"
    assert {*states(world, tmp_path / "none", "--without", GLOO + "/deps/inner")} == {
        "", GLOO, INNER, TBB,
    }  # fmt: skip
