"""A program beside others: when it is ready, that its end is seen, and how it is told to end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.waiting import ENOUGH, has_ended, until

from patchgen.errors import ToolError
from patchgen.system.background import beside
from patchgen.system.process import Program

# Is ready at once; at its end it writes a file, and takes its time for that.
SERVER = """
import os, signal, sys, time
def end(*_):
    time.sleep(0.2)
    open(sys.argv[1], "w").close()
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print(os.getpid(), flush=True)
print("x" * 1000000, flush=True)
while True:
    time.sleep(600)
"""


def server(code: str, *arguments: object) -> Program:
    return Program([sys.executable, "-c", code, *map(str, arguments)], grace=ENOUGH)


@pytest.mark.parametrize("error", [None, KeyboardInterrupt])
def test_it_is_ready_before_and_ends_after(tmp_path: Path, error: type[BaseException]) -> None:
    with (
        pytest.raises(error) if error else contextlib.nullcontext(),
        beside(server(SERVER, tmp_path / "ended"), limit=ENOUGH) as program,
    ):
        assert os.path.exists(f"/proc/{int(program.line)}")
        assert not program.over.is_set()
        if error:
            raise error
    assert (tmp_path / "ended").exists()
    assert has_ended(int(program.line))


def test_its_own_end_is_seen() -> None:
    code = "import os, sys; print(os.getpid(), flush=True); sys.stdin.read(); "
    code += "import time; time.sleep(600)"
    with beside(server(code), limit=ENOUGH) as program:
        os.kill(int(program.line), signal.SIGKILL)
        assert program.over.wait(ENOUGH)
        assert program.completed.how == "died of SIGKILL"
    assert program.completed.how == "died of SIGKILL"


@pytest.mark.parametrize(
    ("program", "limit", "message"),
    [
        (
            server("import sys; sys.exit('no such port')"),
            ENOUGH,
            r"ended with exit code 1\nno such port$",
        ),
        (server("pass"), ENOUGH, ": ended$"),
        (Program(["sleep", "600"]), 0.1, r"not ready in 0\.1 s"),
        (Program(["no-such-server"]), ENOUGH, "no-such-server: No such file"),
    ],
)
def test_one_that_is_never_ready(program: Program, limit: float, message: str) -> None:
    with pytest.raises(ToolError, match=message), beside(program, limit=limit):
        raise AssertionError


def test_it_ends_with_a_killed_command(tmp_path: Path) -> None:
    code = (
        "import sys, time\n"
        "from patchgen.system.background import beside\n"
        "from patchgen.system.process import Program\n"
        "with beside(Program(sys.argv[1:]), limit=60) as program:\n"
        "    print(program.line, flush=True)\n"
        "    time.sleep(600)\n"
    )
    ended = tmp_path / "ended"
    command = [sys.executable, "-c", code, sys.executable, "-c", SERVER, str(ended)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        pid = int(running.stdout.readline())
        running.kill()
    assert has_ended(pid)
    until(lambda: not ended.exists())
