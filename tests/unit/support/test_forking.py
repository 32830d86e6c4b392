"""A rank that is forked is to a test what a process of its own would be."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.forking import Servers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.forking import Forked

PROGRAM = """
import atexit, os, sys, time
if sys.argv[1] == "--serve":
    import forking
    forking.serve(int(sys.argv[2]))
atexit.register(print, "atexit")
print(sys.argv[1:], os.getcwd(), os.environ.get("ONE"), os.environ.get("OTHER"), sys.stdin.read())
print("to stderr", file=sys.stderr)
exec(sys.argv[1])
"""


class Ranks:
    def __init__(self, servers: Servers, directory: Path) -> None:
        self.servers, self.directory = servers, directory
        self.program = directory / "program.py"
        self.program.write_text(PROGRAM)

    def start(self, code: str, name: str = "rank", before: str = "", **env: str) -> Forked:
        (self.directory / name).mkdir()
        payload = str(Path(__file__).parents[2] / "payload")
        environ = {"PYTHONPATH": payload, "OTHER": "of the server"}
        if before:
            self.program.write_text(before + PROGRAM)
        server = self.servers([sys.executable, self.program], environ, key=before)
        return server.start(
            arguments=[code], directory=self.directory / name, environ=env,
            output=self.directory / name / "out", errors=self.directory / name / "err",
        )  # fmt: skip

    def told(self, name: str = "rank") -> tuple[str, str]:
        return tuple((self.directory / name / which).read_text() for which in ("out", "err"))  # type: ignore[return-value]


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[Ranks]:
    servers = Servers(tmp_path)
    yield Ranks(servers, tmp_path)
    servers.close()


def test_what_it_is_started_with_and_how_it_ends(ranks: Ranks) -> None:
    assert ranks.start("sys.exit(3)", ONE="1").wait(60) == 3
    line = f"['sys.exit(3)'] {ranks.directory}/rank 1 None \n"
    assert ranks.told() == (f"{line}atexit\n", "to stderr\n")


def test_an_exception_and_a_signal(ranks: Ranks) -> None:
    raises = ranks.start("raise ValueError('no luck')", "raises")
    dies = ranks.start("os.kill(os.getpid(), 11)", "dies")
    assert dies.wait(60) == -signal.SIGSEGV
    assert raises.wait(60) == 1
    assert ranks.told("raises")[1].splitlines()[-1] == "ValueError: no luck"


def test_ranks_run_side_by_side_and_hang_for_no_longer_than_allowed(ranks: Ranks) -> None:
    waits = ranks.start("while not os.path.exists('../second/here'): time.sleep(0.01)", "first")
    hangs = ranks.start("open('here', 'w'); time.sleep(1000)", "second")
    assert waits.wait(60) == 0
    with pytest.raises(subprocess.TimeoutExpired):
        hangs.wait(0.1)
    hangs.kill()
    assert hangs.wait(60) == -signal.SIGKILL
    hangs.kill()  # nobody, though the number may be another's


def test_a_server_with_threads_cannot_fork(ranks: Ranks) -> None:
    thread = "import threading; threading.Thread(target=input, daemon=True).start()"
    reads = "import os, sys; sys.stdin = os.fdopen(os.pipe()[0]); "
    with pytest.raises(AssertionError, match="the server has 2 threads, so it cannot fork"):
        ranks.start("pass", before=reads + thread)


def test_nothing_is_left_when_servers_are_closed(ranks: Ranks) -> None:
    assert ranks.start("print(os.getppid())").wait(60) == 0
    server = int(ranks.told()[0].splitlines()[1])
    assert os.path.exists(f"/proc/{server}")
    ranks.servers.close()
    assert not os.path.exists(f"/proc/{server}")
