"""Attempt to make a group and sum, in a child process that a failing library may crash."""

import contextlib
import json
import os
import select
import signal
import tempfile
import time
from typing import Any, Callable

_SHOWN = 4  # last lines of output


class Attempt:
    """Child process that waits, then does its work when `run` is called.

    It is forked after torch was imported, and before this process starts a thread.
    """

    def __init__(self, work: "Callable[[dict[str, Any]], dict[str, Any]]") -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # as long as this object
        start, self._start = os.pipe()
        self._answer, answer = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._start)
            os.close(self._answer)
            _serve(work, start, answer, self._log.fileno())
        os.close(start)
        os.close(answer)

    def run(self, job: "dict[str, Any]", patience: float) -> "dict[str, Any]":
        """Start the work; return its result, how the child ended, and its last lines of output."""
        deadline = time.monotonic() + patience
        self._say(json.dumps(job))
        answer = b""
        while True:
            left = deadline - time.monotonic()
            if not select.select([self._answer], [], [], max(left, 0))[0]:
                os.kill(self._pid, signal.SIGKILL)
                return dict(self._end(), ended=f"did not end within {patience:.0f} s")
            part = os.read(self._answer, 1 << 16)
            if not part:
                break
            answer += part
        found = self._end()
        with contextlib.suppress(ValueError):
            found.update(json.loads(answer.decode()))
        return found

    def cancel(self) -> None:
        """End the child without any work."""
        self._say("")
        self._end()

    def _say(self, line: str) -> None:
        os.write(self._start, line.encode() + b"\n")
        os.close(self._start)

    def _end(self) -> "dict[str, Any]":
        _, status = os.waitpid(self._pid, 0)
        os.close(self._answer)
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").splitlines()
        ended = ""
        if os.WIFSIGNALED(status):
            ended = "was ended by " + signal.Signals(os.WTERMSIG(status)).name
        elif os.WEXITSTATUS(status):
            ended = f"ended with exit code {os.WEXITSTATUS(status)}"
        return {"ended": ended, "output": [line for line in lines if line.strip()][-_SHOWN:]}


def _serve(work: "Callable[[dict[str, Any]], dict[str, Any]]", *pipes: int) -> None:
    start, answer, log = pipes
    code = 1
    try:
        # Read a line, not to the end: another child may hold the other end open as well.
        with os.fdopen(start) as lines:
            job = lines.readline().strip()
        if job:
            for number in (1, 2):
                os.dup2(log, number)
            found = work(json.loads(job))
            with os.fdopen(answer, "wb") as file:
                file.write(json.dumps(found).encode())
        code = 0
    except Exception as error:  # noqa: BLE001  # reported to the parent
        os.write(answer, json.dumps({"error": f"{type(error).__name__}: {error}"}).encode())
        code = 0
    finally:
        os._exit(code)
