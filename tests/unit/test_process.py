from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from patchgen.errors import ToolError
from patchgen.process import run, without_git

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
