"""Programs with a limit of time: how they end, and that none is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from support.waiting import gone, read_rest, until

from patchgen.errors import FileError, ToolError
from patchgen.system import children, files
from patchgen.system.children import Child

if TYPE_CHECKING:
    from pathlib import Path

WAIT = "import time; time.sleep(600)"
PARENT = """
import sys, os
from patchgen.system import children, files
with files.scratch("verify") as directory:
    code = "import os, sys; print(os.getpid(), file=open('pid', 'w')); sys.stdin.read()"
    child = children.Child([sys.executable, "-c", code], os.environ, directory)
    print(directory, flush=True)
    children.run([child], 600)
"""


def program(directory: Path, code: str, line: bytes = b"") -> Child:
    directory.mkdir(parents=True, exist_ok=True)
    return Child([sys.executable, "-c", code], os.environ, str(directory), line)


def test_both_run_at_once_and_get_their_line(tmp_path: Path) -> None:
    """Each waits for what the other writes."""
    code = (
        "import os, sys, time\n"
        "mine, other = sys.stdin.readline().split()\n"
        "open('../' + mine, 'w').close()\n"
        "while not os.path.exists('../' + other): time.sleep(0.01)\n"
        "print('done'); print('told', file=sys.stderr)\n"
    )
    pair = [program(tmp_path / a, code, f"x{a} x{b}\n".encode()) for a, b in ("pq", "qp")]
    for ended in children.run(pair, 60):
        assert (ended.out, ended.how, ended.last_lines(3)) == ("done\n", "", ["told"])


def test_how_a_program_ended_is_told_in_words(tmp_path: Path) -> None:
    codes = ["import os; os.kill(os.getpid(), 11)", "import sys; sys.exit(3)"]
    programs = [program(tmp_path / str(i), code) for i, code in enumerate(codes)]
    done = children.run(programs, 60)
    assert [ended.how for ended in done] == ["died of SIGSEGV", "ended with exit code 3"]


def test_one_that_takes_too_long_is_ended_with_what_it_started(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    code = 'sleep 600 & echo "$!" >part; mv part pid; wait'
    (ended,) = children.run([Child(["sh", "-c", code], os.environ, str(tmp_path / "a"))], 5)
    assert ended.how == "did not end within 5 s"
    assert gone((tmp_path / "a" / "pid").read_text().strip())


def test_where_one_fails_the_others_have_a_moment_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children, "_GRACE", 0.5)
    programs = [program(tmp_path / "a", WAIT), program(tmp_path / "b", "raise SystemExit(1)")]
    done = children.run(programs, 600)
    assert [ended.how for ended in done] == [
        "still waited for the others",
        "ended with exit code 1",
    ]


def test_only_the_end_of_much_output_is_kept(tmp_path: Path) -> None:
    code = "print('first'); [print('x' * 99) for _ in range(20000)]; print('last')"
    (ended,) = children.run([program(tmp_path / "a", code)], 60)
    assert ended.out.endswith("last\n")
    assert "first" not in ended.out


def test_one_that_cannot_be_started_takes_the_others_along(tmp_path: Path) -> None:
    first = program(tmp_path / "a", "import sys; sys.stdin.read(); open('over', 'w')")
    second = Child([str(tmp_path)], os.environ, str(tmp_path))
    with pytest.raises(ToolError, match="cannot be run"):
        children.run([first, second], 60)
    assert not (tmp_path / "a" / "over").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_nothing_is_left_when_the_parent_is_told_to_end(
    number: signal.Signals, tmp_path: Path
) -> None:
    """After SIGKILL nobody can remove the directory, but the program ends with its stdin."""
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], env=environ, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as parent:  # fmt: skip
        assert parent.stdout is not None
        pid_file = os.path.join(parent.stdout.readline().strip(), "pid")
        until(lambda: os.path.exists(pid_file) and os.path.getsize(pid_file), parent)
        with open(pid_file, encoding="ascii") as file:
            pid = int(file.read())
        parent.send_signal(number)
        read_rest(parent)
    assert parent.returncode == -number
    assert gone(pid)
    if number is not signal.SIGKILL:
        assert not list(tmp_path.iterdir())


def test_a_handler_of_the_caller_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    before_hangup = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with files.scratch("verify") as path:
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGHUP) is not signal.SIG_DFL
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
        assert not os.path.exists(path)
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGHUP, before_hangup)


def test_no_room_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/nowhere/at/all")
    with pytest.raises(FileError, match="/nowhere/at/all"), files.scratch("verify"):
        pass
