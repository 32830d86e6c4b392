"""A pin and the PyTorch that it was made from, which PYTORCH_SOURCE names: every way to apply."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from support.trees import FLAGS, Tree, commit, generate, git
from support.waiting import captured

from patchgen.core.patch import pinning, pins
from patchgen.core.patch.state import inspect

WAYS = {
    "git apply": ["git", "apply", "--verbose"],
    "git am": ["git", "am", "-q"],
    "patch": ["patch", "-p1", "--fuzz=0", "-i"],
}


@pytest.fixture(scope="module")
def source() -> Path:
    given = os.environ.get("PYTORCH_SOURCE")
    if not given:
        pytest.skip(
            "needs PYTORCH_SOURCE, a checkout of a pin's commit: "
            "git clone --branch v1.7.1 https://github.com/pytorch/pytorch"
        )
    return Path(given)


@pytest.fixture
def tree(source: Path, tmp_path: Path) -> Tree:
    """What the patch touches, in a repository of its own."""
    pin = inspect(str(source), pins.shipped()).pin
    assert pin is not None, f"{source} is of no pin"
    copy = tmp_path / "pytorch"
    for path in [*(file.path for file in pin.files), "torch/distributed/__init__.py"]:
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source / path, copy / path)
    commit(copy)
    return Tree(copy, pin, pin.name)


def test_the_source_gives_the_pin(source: Path) -> None:
    pin = inspect(str(source), pins.shipped()).pin
    assert pin is not None
    made = pinning.make(str(source), pin, pin.name, pin.commit)
    assert made._replace(recipe=pin.recipe, grafts=pin.grafts) == pin


@pytest.mark.parametrize("way", WAYS)
def test_the_patch_applies_without_an_offset(tree: Tree, way: str) -> None:
    before = tree.contents()
    output = generate(tree)
    git(tree.root, "apply", "--check", output)
    done = captured([*WAYS[way], output], cwd=tree.root, check=True)
    assert "offset" not in done.stdout + done.stderr
    assert tree.state() == "patched"
    assert "nothing to do" in tree.run("apply", *FLAGS)
    tree.run("revert")
    assert tree.contents() == before


def test_apply_and_revert(tree: Tree) -> None:
    before = tree.contents()
    tree.run("apply", *FLAGS)
    assert tree.state() == "patched"
    git(tree.root, "apply", "--check", "--reverse", generate(tree))
    tree.run("revert")
    assert tree.contents() == before
    assert git(tree.root, "status", "--porcelain") == ""
