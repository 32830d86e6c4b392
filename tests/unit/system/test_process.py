from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

import pytest
from support.waiting import ENOUGH, gone, until

from patchgen.errors import ToolError
from patchgen.system.process import LIMIT, NoAnswer, run, without_git

if TYPE_CHECKING:
    from pathlib import Path


def test_output_and_input_are_bytes() -> None:
    code = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read()[::-1])"
    assert run([sys.executable, "-c", code], stdin=b"\xff\0a") == b"a\0\xff"


def test_no_shell() -> None:
    code = "import sys; print(sys.argv[1])"
    assert run([sys.executable, "-c", code, "$HOME; `x`"]) == b"$HOME; `x`\n"


def test_a_failure_shows_command_code_and_the_tail_of_stderr() -> None:
    code = "import sys; [print(i, file=sys.stderr) for i in range(100)]; sys.exit(7)"
    with pytest.raises(ToolError) as caught:
        run([sys.executable, "-c", code])
    message = str(caught.value)
    assert "return code 7" in message
    assert sys.executable in message
    assert message.endswith("98\n99")
    assert "\n50\n" not in message


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"no-such-program.*installed"):
        run(["no-such-program"])
    with pytest.raises(ToolError, match="no directory"):
        run([sys.executable], cwd=tmp_path / "gone")


def test_git_never_sees_the_variables_of_another_git() -> None:
    assert without_git({"GIT_DIR": "x", "PATH": "y"}) == {"PATH": "y"}


def test_within_a_limit_it_is_the_same() -> None:
    code = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read()[::-1])"
    big = b"\xff\0a" * 100_000
    assert run([sys.executable, "-c", code], stdin=big, limit=LIMIT) == big[::-1]
    with pytest.raises(ToolError, match="return code 7"):
        run([sys.executable, "-c", "raise SystemExit(7)"], limit=LIMIT)
    with pytest.raises(ToolError, match=r"no-such-program.*installed"):
        run(["no-such-program"], limit=LIMIT)


# Tells the process that it starts, and waits for it in vain.
HANGS = 'sleep 600 & echo "$!" >"$0.part"; mv "$0.part" "$0"; wait'


def test_a_program_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    with pytest.raises(NoAnswer, match="no answer in 1 s"):
        run(["sh", "-c", HANGS, path], limit=1)
    assert not path.exists() or gone(path.read_text().strip())


def test_a_program_is_ended_when_it_is_told_to_stop(tmp_path: Path) -> None:
    stop = threading.Event()
    path = tmp_path / "pid"
    caught: list[NoAnswer] = []

    def ask() -> None:
        try:
            run(["sh", "-c", HANGS, path], limit=600, stop=stop)
        except NoAnswer as error:
            caught.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    until(path.exists)
    stop.set()
    thread.join(ENOUGH)
    assert caught
    assert gone(path.read_text().strip())
