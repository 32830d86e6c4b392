"""Servers that have imported torch once and fork the ranks of tests: payload/forking.py.

An import of torch takes a second or two of processor time, and `make test` starts hundreds of
ranks. The forkserver of multiprocessing is not enough: it forks the interpreter of the test only,
while ranks run in that of their torch.
"""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from support.waiting import ENOUGH

LARGEST = 1 << 16  # of an answer, in bytes
KEPT = 3  # servers at the same time, of some 300 MB each


class Server:
    """Process that forks ranks; torch is imported with the variables of `environ`."""

    def __init__(
        self, command: Sequence[str | Path], environ: Mapping[str, str], log: Path
    ) -> None:
        self._log = log
        self._ended: dict[int, int] = {}
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, log.open("wb") as output:
            descriptor = theirs.fileno()
            self._process = subprocess.Popen(
                [*command, "--serve", str(descriptor)], cwd=log.parent, env=dict(environ),
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, pass_fds=[descriptor],
            )  # fmt: skip

    def start(self, **rank: object) -> Forked:
        """Fork a process that becomes the rank; `rank` is what payload/forking.py takes over."""
        self._send(rank)
        while "started" not in (message := self._receive(ENOUGH)):
            self._note(message)
        self._ended.pop(message["started"], None)  # another rank had the same number
        return Forked(self, message["started"])

    def wait(self, pid: int, timeout: float) -> int:
        """Return the exit code, negative for a signal.

        Raises:
            subprocess.TimeoutExpired: the rank has not ended in so many seconds.
        """
        deadline = time.monotonic() + timeout
        while pid not in self._ended:
            self._note(self._receive(max(0.0, deadline - time.monotonic())))
        return self._ended[pid]

    def kill(self, pid: int) -> None:
        self._send({"kill": pid})

    def close(self) -> None:
        self._connection.close()
        try:
            self._process.wait(ENOUGH)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _note(self, message: Mapping[str, Any]) -> None:
        pid, code = message["ended"]
        self._ended[pid] = code

    def _send(self, message: Mapping[str, object]) -> None:
        try:
            self._connection.send(json.dumps(message, default=str).encode())
        except BrokenPipeError:
            raise self._early_end() from None

    def _receive(self, timeout: float) -> dict[str, Any]:
        self._connection.settimeout(timeout or 1e-3)
        try:
            received = self._connection.recv(LARGEST)
        except socket.timeout:
            raise subprocess.TimeoutExpired(self._process.args, timeout) from None
        except ConnectionResetError:
            raise self._early_end() from None
        if not received:
            raise self._early_end()
        report: dict[str, Any] = json.loads(received)
        return report

    def _early_end(self) -> AssertionError:
        code = self._process.wait(ENOUGH)
        return AssertionError(f"the server of ranks ended with {code}:\n{self._log.read_text()}")


class Forked:
    """A rank of a server, with what is used of a subprocess.Popen."""

    def __init__(self, server: Server, pid: int) -> None:
        self._server, self.pid = server, pid

    def wait(self, timeout: float | None = None) -> int:
        return self._server.wait(self.pid, ENOUGH if timeout is None else timeout)

    def kill(self) -> None:
        self._server.kill(self.pid)


class Servers:
    """Servers of a test session by their command; the last ones used are kept."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._servers: dict[object, Server] = {}
        self._number = 0

    def __call__(
        self, command: Sequence[str | Path], environ: Mapping[str, str], key: object
    ) -> Server:
        server = self._servers.pop(key, None)
        if server is None:
            self._number += 1
            server = Server(command, environ, self._logs / f"{self._number}.log")
        self._servers[key] = server
        for oldest in [*self._servers][:-KEPT]:
            self._servers.pop(oldest).close()
        return server

    def close(self) -> None:
        while self._servers:
            self._servers.popitem()[1].close()
