"""generate, apply, revert and status beside real git and patch."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from support.trees import FLAGS, Tree, commit, generate, git, make, tool

from patchgen.core.patch import render

HOSTILE = """
[core]
    autocrlf = true
    abbrev = 4
    pager = false
    quotePath = true
[diff]
    noprefix = true
    mnemonicPrefix = true
    external = /bin/false
    algorithm = patience
    context = 0
    renames = copies
[color]
    ui = always
    diff = always
[apply]
    whitespace = fix
[am]
    threeWay = true
[format]
    pretty = oneline
"""
WAYS = {
    "git apply": ["git", "apply"],
    "git apply --3way": ["git", "apply", "--3way"],
    "git am": ["git", "am", "-q"],
    "patch": ["patch", "-s", "-p1", "--fuzz=0", "-i"],
}


LAYOUTS = ("c10d-lib", "torch-csrc", "torch-csrc-2.8")
# Each layout in one way, and one layout in all of them; git and patch know no layout.
APPLIED = [
    pytest.param(
        layout, way,
        marks=() if layout == "torch-csrc" or way == "git am" else pytest.mark.rebuild,
    )
    for layout in LAYOUTS
    for way in WAYS
]  # fmt: skip


@pytest.mark.parametrize(("layout", "way"), APPLIED)
def test_the_patch_applies_and_goes_back(tmp_path: Path, layout: str, way: str) -> None:
    tree = make(tmp_path / "pytorch", layout)
    commit(tree.root)
    before, index = tree.contents(), git(tree.root, "write-tree")
    output = generate(tree)
    subprocess.run([*WAYS[way], output], cwd=tree.root, check=True, capture_output=True)
    assert tree.state() == "patched"
    patched = tree.contents()
    tree.run("revert")
    assert tree.contents() == before
    tree.run("apply", *FLAGS)
    assert tree.contents() == patched
    git(tree.root, "apply", "-R", output)
    assert tree.contents() == before
    git(tree.root, "add", "-A")
    assert git(tree.root, "write-tree") == index


@pytest.mark.parametrize("way", WAYS)
def test_with_a_hostile_git_configuration(checkout: Tree, isolated: Path, way: str) -> None:
    output = generate(checkout)
    plain = Path(output).read_bytes()
    (isolated / ".gitconfig").write_text(HOSTILE)
    assert Path(generate(checkout)).read_bytes() == plain
    before = checkout.contents()
    checkout.run("apply", *FLAGS)
    patched = checkout.contents()
    checkout.run("revert")
    assert checkout.contents() == before
    git(checkout.root, "-c", "core.autocrlf=false", "update-index", "--refresh")
    command = WAYS[way]
    if command[0] == "git":
        # CRLF is the user's wish for all files of the checkout; everything else must do no harm.
        command = ["git", "-c", "core.autocrlf=false", *command[1:]]
    subprocess.run([*command, output], cwd=checkout.root, check=True, capture_output=True)
    assert checkout.contents() == patched


def test_git_writes_the_same_headers_and_blob_ids(checkout: Tree) -> None:
    ours = Path(generate(checkout)).read_text()
    checkout.run("apply", *FLAGS)
    git(checkout.root, "add", "-A")
    theirs = git(checkout.root, "diff", "--cached", "--full-index", "--no-renames")

    def headers(text: str) -> list[str]:
        marks = ("diff --git", "index ", "new file", "--- a/", "--- /dev", "+++ b/")
        return [line for line in text.splitlines() if line.startswith(marks)]

    assert headers(ours) == headers(theirs)
    spans = [line for line in ours.splitlines() if line.startswith("@@")]
    assert len(spans) == sum(line.startswith("@@") for line in theirs.splitlines())


@pytest.mark.parametrize(
    "name", ["-with space, ünï 日本, $HOME, %s, a'b\"c", b"\xff\xfe"], ids=["text", "bytes"]
)
def test_hostile_names_of_the_tree(tmp_path: Path, name: str | bytes) -> None:
    tree = make(tmp_path / os.fsdecode(name))
    commit(tree.root)
    before = tree.contents()
    tree.run("apply", *FLAGS)
    assert tree.state() == "patched"
    tree.run("revert")
    assert tree.contents() == before


@pytest.mark.parametrize("home", ["/ünï 'q' (p) #%&{x}", b"/\xff\xfe"], ids=["text", "bytes"])
def test_hostile_homes_survive_patch_status_and_git(checkout: Tree, home: str | bytes) -> None:
    flags = ["--switchml-home", os.fsdecode(home), "--dev-root", "/d"]
    output = generate(checkout, *flags)
    git(checkout.root, "am", "-q", output)
    assert checkout.state() == "patched"
    data = json.loads(checkout.run("status", "--json"))
    found = data["options"]["SWITCHML_HOME"].encode("utf-8", "surrogateescape")
    assert found == os.fsencode(os.fsdecode(home))
    checkout.run("apply", "--patch", output)


def test_twice_changes_nothing_and_other_flags_change_one_file(tree: Tree) -> None:
    tree.run("apply", *FLAGS)
    first = tree.snapshot()
    assert "nothing to do" in tree.run("apply", *FLAGS)
    assert tree.snapshot() == first
    tree.run("apply", "--rdma")
    second = tree.snapshot()
    assert {name for name in second if second[name] != first[name]} == {render.flags_path(tree.pin)}
    tree.run("apply", "--dpdk", "--no-dpdk", "--rdma", "--rdma")
    tree.run("revert")
    clean = tree.snapshot()
    assert "nothing to do" in tree.run("revert")
    assert tree.snapshot() == clean


def test_a_written_patch_carries_its_flags(tree: Tree) -> None:
    output = generate(tree)
    tree.run("apply", "--patch", output)
    assert "nothing to do" in tree.run("apply", *FLAGS)
    tree.run("apply", "--patch", output, "--dpdk", code=2)
    edited = Path(output).read_text().replace("\n+#include", "\n+#import", 1)
    Path(output).write_text(edited)
    assert "generate" in tree.run("apply", "--patch", output, code=2)
    assert "No such file" in tree.run("apply", "--patch", output + "x", code=5)


def test_a_subdirectory_of_another_repository(tmp_path: Path) -> None:
    outer = tmp_path / "outer"
    tree = make(outer / "deep" / "pytorch")
    commit(outer)
    git(outer, "rm", "-rq", "--cached", ".")
    assert "HEAD" not in tree.run("apply", *FLAGS)
    assert tree.state() == "patched"
    tree.run("revert")
    assert tree.state() == "clean"


def test_a_worktree_and_its_head(checkout: Tree, tmp_path: Path) -> None:
    other = tmp_path / "worktree"
    git(checkout.root, "worktree", "add", "-q", str(other))
    tree = Tree(other, checkout.pin, checkout.pin_file)
    head = git(other, "rev-parse", "HEAD")
    assert head[:12] in tree.run("apply", *FLAGS)
    assert f"HEAD is {head[:12]}" in tree.run("status")
    assert checkout.state() == "clean"


def test_a_damaged_repository_is_reported_and_no_obstacle(checkout: Tree) -> None:
    (checkout.root / ".git/HEAD").write_text("nonsense\n")
    assert "could not be read" in checkout.run("apply", *FLAGS)
    assert checkout.state() == "patched"


def test_no_variable_of_git_leads_astray(checkout: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"):
        monkeypatch.setenv(name, "/nowhere")
    assert "could not be read" not in checkout.run("apply", *FLAGS)
    assert checkout.state() == "patched"


def test_relative_symlinked_and_other_directories(tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tree.root)
    arguments = ["--pytorch", tree.pin_file]
    tool("apply", "link", *arguments, cwd=tmp_path)
    tool("revert", ".", *arguments, cwd=tree.root)
    tool("apply", "../..", *arguments, cwd=tree.root / "torch" / "distributed")
    assert tree.state() == "patched"


def test_unrelated_changes_are_no_obstacle(checkout: Tree) -> None:
    (checkout.root / "README.md").write_text("edited\n")
    (checkout.root / "untracked").write_text("x\n")
    checkout.run("apply", *FLAGS)
    checkout.run("revert")
    assert git(checkout.root, "status", "--porcelain") == "M README.md\n?? untracked"
