"""Kills, Ctrl-C and several runs at once: the tree is always in a state that can be fixed."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import programs
from support.trees import Tree
from support.waiting import read_rest, read_until

from patchgen.core.patch import render, state
from patchgen.core.patch import tree as trees
from patchgen.core.patch.state import FileKind, Overall
from patchgen.options import resolve


@pytest.fixture
def kills(tree: Tree) -> Iterator[subprocess.Popen[str]]:
    """Kills commands for the tree."""
    with subprocess.Popen(
        [sys.executable, programs.path_of("patch_kills"), str(tree.root), tree.pin_file],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        yield process


@pytest.mark.parametrize("command", ["apply", "revert"])
@pytest.mark.parametrize("name", ["SIGKILL", "SIGINT"])
def test_a_kill_at_any_step_is_named_and_fixed(
    tree: Tree, kills: subprocess.Popen[str], command: str, name: str
) -> None:
    known = (tree.pin,)
    ways: dict[str, Callable[[], object]] = {
        "apply": lambda: trees.apply(str(tree.root), resolve({}, {}, "/"), known),
        "revert": lambda: trees.revert(str(tree.root), known),
    }
    clean = tree.contents()
    ways["apply"]()
    patched = tree.contents()
    results = {"apply": patched, "revert": clean}
    back = "revert" if command == "apply" else "apply"
    ways[back]()
    seen = set()
    last, steps = kill_steps(tree, command)
    for turn, at in enumerate(steps):
        assert tree.contents() == results[back]
        code = kill(kills, at, command, name)
        assert code == (130 if name == "SIGINT" else -signal.SIGKILL)
        left, whole = state.inspect(str(tree.root), known), tree.contents() in (clean, patched)
        kinds, found = {file.kind for file in left.files}, left.overall
        # Hooks without their files would build something else than torch, patched or not.
        assert not kinds >= {FileKind.POST, FileKind.ABSENT}
        assert (found is Overall.PARTLY) != whole
        assert whole or name != "SIGINT"
        assert found in {Overall.CLEAN, Overall.PATCHED, Overall.PARTLY}
        if found is Overall.PARTLY and found not in seen:
            assert "revert" in tree.run("status", code=3)
        seen.add(found)
        fix = ("revert", "apply")[turn % 2]
        ways[fix]()
        assert tree.contents() == results[fix]
        if fix != back:
            ways[back]()
    assert kill(kills, last + 1, command, name) == 0, "there are more steps"
    assert tree.contents() == results[command]
    assert (Overall.PARTLY in seen) == (name == "SIGKILL")


def kill_steps(tree: Tree, command: str) -> tuple[int, list[int]]:
    """Return the number of steps of a command, and those after which it is killed.

    A step writes, replaces or removes a file. The files that are added are alike, so a kill comes
    after some of them only. It comes after each replacement of a hooked file.
    """
    hooked, added = len(tree.pin.files), len(render.new_paths(tree.pin))
    if command == "apply":
        last = 2 * (hooked + added)
        replacements = range(last - hooked, last + 1)
    else:
        last = 2 * hooked + added
        replacements = range(hooked, 2 * hooked + 1)
    return last, sorted({*range(1, last + 1, 40), *replacements})


def kill(kills: subprocess.Popen[str], at: int, command: str, name: str) -> int:
    """Run a command that gets a signal after a step, and return its exit code."""
    assert kills.stdin is not None
    assert kills.stdout is not None
    kills.stdin.write(f"{at} {command} {name}\n")
    kills.stdin.flush()
    return int(kills.stdout.readline())


def test_two_at_once(tree: Tree) -> None:
    descriptor = os.open(tree.root, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    before = tree.snapshot()
    for command in ("apply", "revert"):
        assert "another run" in tree.run(command, code=3)
    assert tree.snapshot() == before
    os.close(descriptor)
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "patchgen", "apply", str(tree.root), "--pytorch", tree.pin_file],
            stderr=subprocess.PIPE,
        )
        for _ in range(4)
    ]
    codes = [(process.communicate(), process.returncode)[1] for process in processes]
    assert set(codes) <= {0, 3}
    assert 0 in codes
    assert tree.state() == "patched"


def test_ctrl_c_is_one_line_and_leaves_no_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(
        [sys.executable, "-m", "patchgen", "generate", "-o", str(pipe)],
        cwd=tmp_path, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        read_until(process, "they are needed")  # advice just before the patch is written
        time.sleep(0.3)  # now it waits for a reader of the pipe, or is about to
        process.send_signal(signal.SIGINT)
        error = read_rest(process)
    assert process.returncode == 130
    assert error == "interrupted\n"
    assert os.listdir(tmp_path) == ["pipe"]
