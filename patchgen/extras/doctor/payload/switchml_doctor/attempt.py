"""Attempt to make a group and sum, in a child process that a failing library may crash."""

import contextlib
import multiprocessing
import os
import signal
import tempfile
from typing import Any, Callable

_SHOWN = 4  # last lines of output


class Attempt:
    """Child process that waits, then does its work when `run` is called.

    It is forked after torch was imported, and before this process starts a thread.
    """

    def __init__(self, work: "Callable[[dict[str, Any]], dict[str, Any]]") -> None:
        fork = multiprocessing.get_context("fork")
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # as long as this object
        self._pipe, theirs = fork.Pipe()
        given = (work, theirs, self._log.fileno())
        self._child = fork.Process(target=_serve, args=given, daemon=True)  # type: Any
        self._child.start()
        theirs.close()

    def run(self, job: "dict[str, Any]", patience: float) -> "dict[str, Any]":
        """Start the work; return its result, how the child ended, and its last lines of output."""
        self._pipe.send(job)
        if not self._pipe.poll(patience):
            os.kill(self._child.pid, signal.SIGKILL)
            return dict(self._end(), ended=f"did not end within {patience:.0f} s")
        found = {}  # type: dict[str, Any]
        with contextlib.suppress(EOFError, OSError):  # it has ended without a result
            found = self._pipe.recv()
        return dict(self._end(), **found)

    def cancel(self) -> None:
        """End the child without any work."""
        self._pipe.send(None)
        self._end()

    def _end(self) -> "dict[str, Any]":
        self._child.join()
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").splitlines()
        ended, code = "", self._child.exitcode
        if code < 0:
            ended = f"was ended by {signal.Signals(-code).name}"
        elif code:
            ended = f"ended with exit code {code}"
        return {"ended": ended, "output": [line for line in lines if line.strip()][-_SHOWN:]}


def _serve(work: "Callable[[dict[str, Any]], dict[str, Any]]", pipe: Any, log: int) -> None:
    code = 1
    try:
        job = pipe.recv()
        if job is not None:
            for number in (1, 2):
                os.dup2(log, number)
            pipe.send(work(job))
        code = 0
    except Exception as error:  # noqa: BLE001  # reported to the parent
        pipe.send({"error": f"{type(error).__name__}: {error}"})
        code = 0
    finally:
        os._exit(code)
