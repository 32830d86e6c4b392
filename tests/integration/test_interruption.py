"""Kills, Ctrl-C and several runs at once: the tree is always in a state that can be mended."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from trees import Tree

pytestmark = pytest.mark.integration

KILL = """
import os, signal, sys
from patchgen import options, pins, tree
at, command, root, pin = int(sys.argv[1]), *sys.argv[2:]
count = 0
def counted(name):
    real = getattr(os, name)
    def step(*arguments, **keywords):
        global count
        result = real(*arguments, **keywords)
        count += 1
        if count == at:
            os.kill(os.getpid(), getattr(signal, os.environ["SIGNAL"]))
        return result
    setattr(os, name, step)
for name in ("replace", "unlink", "fsync"):
    counted(name)
known = (pins.load(pin),)
if command == "apply":
    tree.apply(root, options.resolve({}, {}, "/"), known)
else:
    tree.revert(root, known)
print("done", flush=True)
"""


@pytest.mark.parametrize("command", ["apply", "revert"])
@pytest.mark.parametrize("name", ["SIGKILL", "SIGINT"])
def test_a_kill_at_any_step_is_named_and_mended(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, command: str, name: str
) -> None:
    monkeypatch.setenv("SIGNAL", name)
    clean = tree.contents()
    tree.run("apply", "--dev-root", "/")
    patched = tree.contents()
    seen = set()
    for at in range(1, 100):
        tree.run("revert" if command == "apply" else "apply", "--pytorch", tree.pin_file,
                 *([] if command == "apply" else ["--dev-root", "/"]))  # fmt: skip
        start = clean if command == "apply" else patched
        assert tree.contents() == start
        done = subprocess.run(
            [sys.executable, "-c", KILL, str(at), command, str(tree.root), tree.pin_file],
            check=False, capture_output=True,
        )  # fmt: skip
        if b"done" in done.stdout:
            break
        assert done.returncode != 0
        state = tree.state()
        seen.add(state)
        if name == "SIGINT":
            assert tree.contents() in (clean, patched)
        assert state in {"clean", "patched", "partly patched"}
        if state == "partly patched":
            assert "revert" in tree.run("status", code=3)
        tree.run("revert")
        assert tree.contents() == clean
        tree.run("apply", "--dev-root", "/")
        assert tree.contents() == patched
    else:
        pytest.fail("the run never ended by itself")
    assert at > 6
    assert ("partly patched" in seen) == (name == "SIGKILL")


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
    process = subprocess.Popen(
        [sys.executable, "-m", "patchgen", "generate", "-o", str(pipe)],
        cwd=tmp_path, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    for _ in range(2):
        process.stderr.readline()  # the warnings come just before the patch is written
    time.sleep(0.3)  # now it waits for a reader of the pipe
    process.send_signal(signal.SIGINT)
    error = process.communicate(timeout=30)[1]
    assert process.returncode == 130
    assert error == b"interrupted\n"
    assert os.listdir(tmp_path) == ["pipe"]
