"""What is in the way of apply and revert is named, and nothing is changed."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path

import pytest
from support.trees import FLAGS, Tree, tool
from support.waiting import captured

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


@pytest.mark.parametrize("command", ["apply", "revert", "status"])
@pytest.mark.parametrize(
    "which", ["third_party/switchml_delegate", "third_party", "hooked", "torch"]
)
def test_a_directory_that_is_a_symbolic_link(
    tree: Tree, tmp_path: Path, which: str, command: str
) -> None:
    """It leads out of the tree, to where the patch has been moved."""
    if command == "revert":
        tree.run("apply", *FLAGS)
    path = tree.root / (Path(tree.pin.files[0].path).parent if which == "hooked" else which)
    outside = tmp_path / "outside"
    if path.exists():
        path.rename(outside)
    else:
        outside.mkdir()
        path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(outside)
    before = [*outside.rglob("*")]
    message = tree.run(command, code=3)
    line = f"{path.relative_to(tree.root)}: is a symbolic link; put the directory itself there\n"
    assert message.count(line) == 1
    assert len(message.splitlines()) <= 3
    assert [*outside.rglob("*")] == before
    assert tree.state() != "patched"


@pytest.mark.parametrize("command", ["apply", "status"])
def test_a_file_in_place_of_a_directory(tree: Tree, command: str) -> None:
    place = tree.root / render.PROJECT
    place.parent.mkdir(parents=True, exist_ok=True)
    place.touch()
    message = tree.run(command, code=3)
    assert message.count(f"{render.PROJECT}: is not a directory; move it away\n") == 1
    assert "git checkout" not in message


def test_line_ends_of_windows(tree: Tree) -> None:
    """In a file that has other changes as well, and in a file that the patch added."""
    tree.run("apply", *FLAGS)
    hooked, added = tree.root / tree.pin.files[0].path, tree.root / render.flags_path(tree.pin)
    edit(hooked)
    for path in (hooked, added):
        crlf(path)
    message = tree.run("apply", code=3)
    assert f"{tree.pin.files[0].path}: has a foreign edit on top of the patch (CRLF line" in message
    assert f"{render.flags_path(tree.pin)}: has CRLF line ends; check it out again" in message


@pytest.mark.parametrize("kind", ["device", "pipe", "long"])
def test_a_patch_that_has_no_end(tree: Tree, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "patch"
    if kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.touch()
        os.truncate(path, 1 << 40)
    message = tree.run("apply", "--patch", str(path), code=5)
    what = "is longer than 16 MiB" if kind == "long" else "is not a regular file"
    assert message == f"error: {path}: {what}\n"
    command = [sys.executable, "-m", "patchgen", "apply", str(tree.root), "--patch", "-"]
    with open("/dev/zero", "rb") as zero:
        done = captured(command, stdin=zero)
    assert (done.returncode, done.stderr) == (5, "error: stdin: is longer than 16 MiB\n")


def test_a_record_that_is_nested_without_end(tree: Tree, tmp_path: Path) -> None:
    deep = "[" * 100_000
    patch, pin = tmp_path / "patch", tmp_path / "deep.json"
    patch.write_text(f"switchml-patch: {deep}\n")
    pin.write_text(deep)
    assert "not a patch written" in tree.run("apply", "--patch", str(patch), code=2)
    assert "not a pin" in tool("generate", "--pytorch", str(pin), code=2).stderr
    tree.run("apply", *FLAGS)
    (tree.root / render.flags_path(tree.pin)).write_text(f"# switchml-patch: {deep}\n")
    for command in ("apply", "revert", "status"):
        assert "is not a file of this patch, or was edited" in tree.run(command, code=3)


def test_status_of_a_file(tree: Tree) -> None:
    message = tool("status", tree.pin_file, code=3).stderr
    assert message == f"error: {tree.pin_file}: neither a directory, nor a python or wheel\n"


def added(tree: Tree) -> list[tuple[str, ...]]:
    """Return files that the patch adds: one of each kind alone, and all together."""
    paths = render.new_paths(tree.pin)
    kinds = {os.path.splitext(path)[1]: path for path in paths}
    return [*((path,) for path in kinds.values()), paths]


def test_a_foreign_file_at_a_new_file_s_place(tree: Tree) -> None:
    for foreign in added(tree):
        for path in foreign:
            (tree.root / path).parent.mkdir(parents=True, exist_ok=True)
            (tree.root / path).write_text("mine\n")
        for command in ("apply", "revert"):
            message = tree.run(command, code=3)
            for path in foreign:
                assert f"{path}: " in message
                assert (tree.root / path).read_text() == "mine\n"
        assert tree.state() == "foreign edits"
        for path in foreign:
            (tree.root / path).unlink()


def test_an_edited_new_file_is_not_removed(tree: Tree) -> None:
    tree.run("apply", *FLAGS)
    ours = tree.contents()
    for edited in added(tree):
        for path in edited:
            (tree.root / path).write_bytes(ours[path] + b"# mine\n")
        before = tree.contents()
        message = tree.run("revert", code=3)
        assert all(f"{path}: " in message for path in edited)
        assert tree.contents() == before
        for path in edited:
            (tree.root / path).write_bytes(ours[path])
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
        assert "patched by switchml-patch 0.0.9" in message
        assert message.endswith("revert the tree with that version first\n")
        assert "git checkout" not in message
        assert not any(path in message for path in others)
    assert tree.state() == "patched by another version"
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
