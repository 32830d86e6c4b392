"""Runs programs side by side within a limit of time, and leaves none behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchgen.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LIMIT = 120.0
"""Seconds that a program may take."""

_GRACE = 10.0  # seconds that the others have to notice that one is gone
_POLL = 0.02  # seconds
_KEPT = 1 << 20  # bytes of a program's output, from its end


@dataclass(frozen=True)
class Child:
    """A program to run, the line it gets on stdin, and its own directory, which is there."""

    command: Sequence[str]
    environ: Mapping[str, str]
    directory: str
    line: bytes = b""


@dataclass(frozen=True)
class Ended:
    """How a program ended and what it wrote."""

    code: int
    """As in subprocess: negative for a signal."""
    killed: str
    """Why it was ended by us, or empty."""
    out: str
    err: str

    @property
    def how(self) -> str:
        """In words; empty where all is well."""
        if self.killed:
            return self.killed
        if self.code < 0:
            return f"died of {_signal_name(-self.code)}"
        return f"ended with exit code {self.code}" if self.code else ""

    def last_lines(self, count: int) -> list[str]:
        """The end of what it wrote for people."""
        lines = [line.strip() for line in self.err.splitlines()]
        return [line for line in lines if line][-count:]


@dataclass
class _Running:
    process: subprocess.Popen[bytes]
    directory: str
    killed: str = ""

    def end(self, why: str = "") -> None:
        """Ends it with its session, so with what a wrapper has started."""
        if self.process.poll() is None:
            self.killed = why
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()


def run(children: Sequence[Child], limit: float) -> list[Ended]:
    """Runs programs until all have ended, and ends those that take longer.

    Their stdin stays open as long as this process lives. Where one fails, the others have a
    moment left.

    Args:
        children: started in this order.
        limit: in seconds.

    Raises:
        ToolError: one cannot be started.
        OSError: its directory cannot be written.
    """
    running: list[_Running] = []
    try:
        for child in children:
            running.append(_start(child))  # noqa: PERF401  # the others are known if one fails
        _wait(running, limit)
    finally:
        for one in running:
            one.end()
    return [
        Ended(
            one.process.returncode,
            one.killed,
            _tail(os.path.join(one.directory, "stdout")),
            _tail(os.path.join(one.directory, "stderr")),
        )
        for one in running
    ]


def _start(child: Child) -> _Running:
    with contextlib.ExitStack() as stack:
        out, err = (
            stack.enter_context(open(os.path.join(child.directory, name), "wb"))
            for name in ("stdout", "stderr")
        )
        try:
            process = subprocess.Popen(
                child.command, cwd=child.directory, env=child.environ, start_new_session=True,
                stdin=subprocess.PIPE, stdout=out, stderr=err,
            )  # fmt: skip
        except OSError as error:
            raise ToolError(f"{child.command[0]}: cannot be run: {error.strerror}") from error
    running = _Running(process, child.directory)
    assert process.stdin is not None  # noqa: S101  # it is a pipe
    with contextlib.suppress(BrokenPipeError):  # its end is told by its exit code
        process.stdin.write(child.line)
        process.stdin.flush()
    return running


def _wait(running: Sequence[_Running], limit: float) -> None:
    why = f"did not end within {limit:g} s"
    deadline = time.monotonic() + limit
    failed = False
    while any(one.process.poll() is None for one in running):
        if not failed and any(one.process.poll() for one in running):
            failed = True
            if time.monotonic() + _GRACE < deadline:
                deadline, why = time.monotonic() + _GRACE, "still waited for the others"
        if time.monotonic() >= deadline:
            for one in running:
                one.end(why)
        time.sleep(_POLL)


def _tail(path: str) -> str:
    with open(path, "rb") as file:
        file.seek(max(0, os.path.getsize(path) - _KEPT))
        return file.read().decode(errors="replace")


def _signal_name(number: int) -> str:
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"
