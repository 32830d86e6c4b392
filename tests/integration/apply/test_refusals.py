"""What is in the way of apply and revert is named, and nothing is changed."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from support.trees import FLAGS, Tree, tool

from patchgen.core.patch import render
from patchgen.core.patch.transaction import READ_ONLY


def edit(path: Path) -> None:
    path.write_text("// edited\n" + path.read_text())


def crlf(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))


def link(path: Path) -> None:
    path.rename(path.with_suffix(".real"))
    path.symlink_to(path.with_suffix(".real").name)


def directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("damage", "code", "words"),
    [
        (edit, 3, ["foreign edit", "expected blob", "found"]),
        (crlf, 3, ["CRLF", "core.autocrlf false"]),
        (link, 3, ["symbolic link"]),
        (Path.unlink, 3, ["is missing"]),
        (directory, 3, ["not a regular file"]),
        (lambda path: path.chmod(0o444), 5, [READ_ONLY]),
        (lambda path: path.parent.chmod(0o555), 5, [READ_ONLY]),
    ],
)
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("command", ["apply", "revert"])
def test_what_is_in_the_way_is_named(  # each is one axis
    tree: Tree, damage: object, code: int, words: list[str], which: int, command: str
) -> None:
    assert callable(damage)
    if command == "revert":
        tree.run("apply", *FLAGS)
    path = tree.root / tree.pin.files[which].path
    damage(path)
    before = tree.snapshot()
    message = tree.run(command, code=code)
    path.parent.chmod(0o755)
    assert all(word in message for word in words)
    assert tree.pin.files[which].path in message or str(path.parent) in message
    assert tree.snapshot() == before


@pytest.mark.parametrize("order", [1, -1])
def test_a_patch_in_place_of_a_tree(tree: Tree, tmp_path: Path, order: int) -> None:
    """The message has the command that applies it."""
    patch = tmp_path / "the patch"
    tool("generate", *FLAGS, "--pytorch", tree.pin_file, "-o", str(patch))
    before = tree.snapshot()
    message = tool("apply", *[str(patch), str(tree.root)][::order], code=2).stderr
    error, _, command = message.strip().partition("; apply a patch with: ")
    assert error == f"error: {patch}: is not a tree"
    assert tree.snapshot() == before
    tool(*shlex.split(command)[1:], "--pytorch", tree.pin_file)
    assert tree.state() == "patched"
    alone = tool("apply", str(patch), code=2).stderr
    assert alone.endswith(f"apply --patch {shlex.quote(str(patch))} TREE\n")
    several = tool("apply", str(tree.root), "x", code=2).stderr
    assert "unexpected extra argument (x)" in several


def test_a_foreign_file_at_a_new_file_s_place(tree: Tree) -> None:
    for path in render.new_paths(tree.pin):
        (tree.root / path).parent.mkdir(parents=True, exist_ok=True)
        (tree.root / path).write_text("mine\n")
        for command in ("apply", "revert"):
            message = tree.run(command, code=3)
            assert path in message
            assert (tree.root / path).read_text() == "mine\n"
        assert tree.state() == "foreign edits"
        (tree.root / path).unlink()


def test_an_edited_new_file_is_not_removed(tree: Tree) -> None:
    tree.run("apply", *FLAGS)
    for path in render.new_paths(tree.pin):
        ours = (tree.root / path).read_bytes()
        (tree.root / path).write_bytes(ours + b"# mine\n")
        before = tree.contents()
        assert path in tree.run("revert", code=3)
        assert tree.contents() == before
        (tree.root / path).write_bytes(ours)
    tree.run("revert")


def test_a_tree_patched_by_another_version_names_that_version(tree: Tree) -> None:
    """A version that lacked a flag, and whose files and hooks were others."""
    tree.run("apply", *FLAGS)
    flags = tree.root / render.flags_path(tree.pin)
    line, _, rest = flags.read_text().partition("\n")
    start, _, values = line.partition("{")
    record = {**json.loads("{" + values), "version": "0.0.9"}
    del record["rdma"]
    flags.write_text(f"{start}{json.dumps(record)}\n{rest}")
    others = [render.new_paths(tree.pin)[0], tree.pin.files[0].path]
    for path in others:
        edit(tree.root / path)
    before = tree.contents()
    for command in ("apply", "revert", "status"):
        message = tree.run(command, code=3)
        for path in (*others, render.flags_path(tree.pin)):
            text = f"{path}: was written by switchml-patch 0.0.9; revert with that version"
            assert text in message
    assert tree.contents() == before


def test_no_tree_and_no_pin(tree: Tree, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    for command in ("apply", "revert", "status"):
        done = tool(command, str(empty), code=3)
        assert "not a PyTorch tree" in done.stdout + done.stderr
        assert "no such directory" in tool(command, str(tmp_path / "gone"), code=3).stderr
        done = tool(command, str(tree.root), code=3)
        assert "another version" in done.stdout or "no" in done.stderr
        assert tree.pin.files[0].pre in done.stdout + done.stderr
    assert "is v0.0.1" not in tree.run("apply", "--pytorch", "1.7.1", code=3)


@pytest.mark.parametrize("damage", [edit, crlf])
@pytest.mark.parametrize("patched", [False, True])
def test_the_id_that_is_expected_is_that_of_the_state(
    tree: Tree, damage: object, *, patched: bool
) -> None:
    """The tree is one that is patched, or one that is not, but for the file that was edited."""
    assert callable(damage)
    if patched:
        tree.run("apply", *FLAGS)
    hooked, other = tree.pin.files[0], tree.pin.files[1]
    damage(tree.root / hooked.path)
    wanted, not_wanted = (hooked.post, hooked.pre) if patched else (hooked.pre, hooked.post)
    output = tree.run("status", code=3)
    assert f"(expected blob {wanted}, found " in output
    assert not_wanted not in output
    assert ("on top of the patch" in output) == (patched and damage is edit)
    files = {
        file["path"]: file for file in json.loads(tree.run("status", "--json", code=3))["files"]
    }
    assert files[hooked.path]["expected"] == wanted
    assert files[other.path]["expected"] == files[other.path]["found"]
