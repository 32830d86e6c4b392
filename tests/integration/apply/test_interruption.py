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

from patchgen.core.patch import state
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
    assert kills.stdin is not None
    assert kills.stdout is not None
    known = (tree.pin,)
    ways: dict[str, Callable[[], object]] = {
        "apply": lambda: trees.apply(str(tree.root), resolve({}, {}, "/"), known),
        "revert": lambda: trees.revert(str(tree.root), known),
    }
    clean = tree.contents()
    ways["apply"]()
    patched = tree.contents()
    seen = set()
    # Most steps write or replace a file, and are alike: a kill comes after each third of them, an
    # exception less often.
    for at in range(1, 1000, 3 if name == "SIGKILL" else 13):
        ways["revert" if command == "apply" else "apply"]()
        start = clean if command == "apply" else patched
        assert tree.contents() == start
        kills.stdin.write(f"{at} {command} {name}\n")
        kills.stdin.flush()
        code = int(kills.stdout.readline())
        if code == 0:
            break
        assert code == (130 if name == "SIGINT" else -signal.SIGKILL)
        left = state.inspect(str(tree.root), known)
        kinds, found = {file.kind for file in left.files}, left.overall
        # Hooks without their files would build something else than torch, patched or not.
        assert not kinds >= {FileKind.POST, FileKind.ABSENT}
        assert (found is Overall.PARTLY) == (tree.contents() not in (clean, patched))
        if name == "SIGINT":
            assert tree.contents() in (clean, patched)
        assert found in {Overall.CLEAN, Overall.PATCHED, Overall.PARTLY}
        if found is Overall.PARTLY and found not in seen:
            assert "revert" in tree.run("status", code=3)
        seen.add(found)
        ways["revert"]()
        assert tree.contents() == clean
        ways["apply"]()
        assert tree.contents() == patched
    else:
        pytest.fail("the run never ended by itself")
    assert at > 6
    assert (Overall.PARTLY in seen) == (name == "SIGKILL")


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
