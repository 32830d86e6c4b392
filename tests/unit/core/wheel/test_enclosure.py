"""The private mounts and the private network, each in a system that is made for the test."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from support.waiting import captured

from patchgen.core.wheel.payload import enclosure

PROGRAM = os.path.abspath(enclosure.__file__)
SYSTEM = """\
mount -t tmpfs tmpfs /mnt && cd /mnt && mkdir -p disk/work && echo held >disk/work/file \
&& ln -s disk link && echo text >plain && {} && cd / && exec "$@"
"""
LOOK = f"""
import sys
sys.path.insert(0, {os.path.dirname(PROGRAM)!r})
import enclosure
enclosure.hide()
enclosure.show("/mnt/disk/work")
print(open(enclosure.PATH + "/file").read().strip(), open("/mnt/link/work/file").read().strip())
print(open("/mnt/plain").read().strip(), oct(__import__("os").stat("/mnt").st_mode & 0o777))
enclosure.show("/mnt/disk")
print(*__import__("os").listdir(enclosure.PATH))
enclosure.hide()
print(__import__("os").listdir(enclosure.PATH))
enclosure.show("/mnt/disk")
print(*__import__("os").listdir(enclosure.PATH))
"""


THREADS = f"""
import os
import sys
from concurrent.futures import ThreadPoolExecutor
sys.path.insert(0, {os.path.dirname(PROGRAM)!r})
import enclosure
for _ in range(30):
    if os.fork() == 0:
        with ThreadPoolExecutor(6) as pool:
            [*pool.map(str, range(6))]
        enclosure._unshare(enclosure._NEWUSER | enclosure._NEWNS)
        os._exit(0)
    assert os.wait()[1] == 0
"""
"""Namespaces of an ordinary user, just after threads."""


def run(*command: str, before: str = "true") -> subprocess.CompletedProcess[str]:
    """Runs a program in a system with entries in /mnt."""
    shell = ["sh", "-c", SYSTEM.format(before), "sh"]
    return captured(["unshare", "--user", "--map-root-user", "--mount", *shell, *command])


def test_a_directory_is_shown_beside_all_that_is_there() -> None:
    done = run(sys.executable, "-c", LOOK)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["held held", "text 0o755", "work", "[]", "work"]
    assert not Path(enclosure.PATH).exists()


def test_threads_that_have_ended_are_in_nobodys_way() -> None:
    done = captured([sys.executable, "-c", THREADS])
    assert (done.returncode, done.stderr) == (0, "")


def test_nothing_of_the_users_is_hidden() -> None:
    done = run(sys.executable, PROGRAM, "--try", before="mkdir switchml-patch")
    assert (done.returncode, done.stderr) == (1, f"{enclosure.PATH}: File exists\n")
    assert run(sys.executable, PROGRAM, "--try").returncode == 0


def test_a_command_has_a_loopback_and_no_other_network() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        program = (
            "import socket\n"
            "print(sorted(name for _, name in socket.if_nameindex()))\n"
            "server = socket.create_server(('127.0.0.1', 0))\n"
            "socket.create_connection(server.getsockname())\n"
            f"print(socket.socket().connect_ex(('127.0.0.1', {port})))\n"
            "print(socket.socket().connect_ex(('192.0.2.1', 80)))\n"
        )
        arguments = [sys.executable, PROGRAM, "--", sys.executable, "-c", program]
        output = captured(arguments, check=True).stdout
    lines = output.splitlines()
    assert lines[0] == "['lo']"
    assert lines[1:] == [str(number) for number in (111, 101)]  # refused, unreachable


@pytest.mark.parametrize("command", [["no-such-program"], ["/dev/null"]])
def test_a_command_that_cannot_be_started_is_reported(command: list[str]) -> None:
    arguments = [sys.executable, PROGRAM, "--", *command]
    done = captured(arguments)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
