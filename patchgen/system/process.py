"""Runs programs: to get their output, to follow it, or several in parallel.

A program has no terminal, but a time limit, and ends with all processes that it started. Nothing
else in the package starts or ends programs, except for payload/, which runs in other Pythons.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from patchgen.errors import ToolError
from patchgen.system import signals
from patchgen.system.payload.supervisor import HANDED
from patchgen.system.pipes import Lines, Pipes, Tail, Take
from patchgen.system.program import CompletedRun, Program, RunningProgram, attend, start

if TYPE_CHECKING:
    from threading import Event

__all__ = ["ERR", "KEPT", "LIMIT", "OUT", "CompletedRun", "NoAnswer", "Program", "capture",
           "run", "shell_code", "side_by_side", "stream"]  # fmt: skip

LIMIT = 60.0
"""Seconds for a program that only answers a question: many times what it needs."""
OUT, ERR = "out", "err"
KEPT = 1 << 20
"""Bytes kept from the end of an untrusted program's output."""

_TAIL = 20  # lines of a failed program's stderr in a message
_SHORT = 0.05  # seconds; short, to see which program ended first


class NoAnswer(ToolError):  # noqa: N818  # the name says it
    """A program exceeded its limit, or was stopped."""


def run(  # noqa: PLR0913  # all are independent
    argv: Sequence[str | os.PathLike[str]],
    *,
    limit: float | None,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    stop: Event | None = None,
    supervised: bool = False,
) -> bytes:
    """Run a program that must succeed, and return its standard output.

    It ends, with all processes that it started, after `limit` seconds or when `stop` is set. The
    other arguments are those of `Program`.

    Raises:
        ToolError: the program is missing, or its return code is not 0.
        NoAnswer: it exceeded its limit, or was stopped.
    """
    program = Program(argv, cwd, env, stdin, supervised)
    ended = capture(program, limit=limit, stop=stop)
    if ended.code != 0:
        why = f"return code {ended.code}"
        tail = "\n".join(ended.err.decode(errors="replace").splitlines()[-_TAIL:])
        message = f"{program.line}: {why}\n{tail}".rstrip()
        raise ToolError(message, reason="".join(ended.last_lines(1)) or why)
    return ended.out


def shell_code(code: int) -> int:
    """Return a return code as shells report it: 128 plus the number of a signal."""
    return code if code >= 0 else 128 - code


def capture(program: Program, *, limit: float | None, stop: Event | None = None) -> CompletedRun:
    """Run a program to its end, whatever its return code.

    Raises:
        ToolError: it cannot be started.
        NoAnswer: it exceeded its limit, or was stopped.
    """
    out, err = Tail(), Tail()
    code = _follow(program, out, err, limit, stop)
    return CompletedRun(code, bytes(out), bytes(err))


def stream(
    program: Program,
    output: Callable[[str, bytes], object],
    *,
    limit: float | None,
    stop: Event | None = None,
) -> int:
    """Run a program to its end, passing on each line of output; return the return code.

    `output` is called with OUT or ERR, and a line with its end. `limit` and `stop` are as in `run`.

    Raises:
        ToolError: it cannot be started.
        NoAnswer: it exceeded its limit, or was stopped.
    """
    out, err = (Lines(functools.partial(output, name)) for name in (OUT, ERR))
    return _follow(program, out, err, limit, stop)


def _follow(program: Program, out: Take, err: Take, limit: float | None, stop: Event | None) -> int:
    deadline = math.inf if limit is None else time.monotonic() + limit

    def check() -> None:
        if stop is not None and stop.is_set():
            raise NoAnswer(f"{program.line}: stopped", reason="stopped")
        if time.monotonic() >= deadline:
            why = f"no answer in {limit:g} s"
            raise NoAnswer(f"{program.line}: {why}", reason=why)

    check()  # before the start
    with closing(Pipes()) as pipes, start(program) as running:
        running.connect(pipes, out, err)
        attend([running], pipes, check, program.grace)
    return running.returned


def side_by_side(
    programs: Sequence[Program],
    *,
    limit: float | None,
    patience: float = 0,
    output: Callable[[int, str, bytes], object] | None = None,
    stop: Event | None = None,
) -> list[CompletedRun]:
    """Run programs in parallel, supervised, until all have ended or were ended.

    Signals that do not end this process are forwarded to each program.

    Args:
        programs: programs, started in this order.
        limit: seconds for all of them; None: no limit.
        patience: seconds for the others once a program has failed.
        output: called with the number of a program, OUT or ERR, and a line with its end.
        stop: ends them once it is set.

    Returns:
        The end of each program. Without `output` it has at most the last MiB of each output.

    Raises:
        ToolError: a program cannot be started.
    """
    kept = [(Tail(KEPT), Tail(KEPT)) for _ in programs]
    ending = _Ending(programs, limit, patience, stop)
    started = ending.started

    def tell(number: int) -> None:
        for running in started:
            running.tell(number)

    with contextlib.ExitStack() as stack:
        handed = HANDED - {signal.SIGINT, signal.SIGTERM}
        stack.enter_context(signals.handing_on(handed, tell))
        pipes = stack.enter_context(closing(Pipes()))
        for number, program in enumerate(programs):
            # Supervised, no other process has its pipes once it has ended, so they end as well.
            started.append(stack.enter_context(start(replace(program, supervised=True))))
            out, err = kept[number] if output is None else (
                Lines(functools.partial(output, number, name)) for name in (OUT, ERR)
            )  # fmt: skip
            started[-1].connect(pipes, out, err)
        attend(started, pipes, ending, ending.grace, _SHORT)
    return [
        CompletedRun(running.returned, bytes(out), bytes(err), how, when or math.inf)
        for running, (out, err), how, when in zip(started, kept, ending.reasons, ending.ends)
    ]


class _Ending:
    """When parallel programs have to end, and when and why they ended."""

    def __init__(
        self,
        programs: Sequence[Program],
        limit: float | None,
        patience: float,
        stop: Event | None,
    ) -> None:
        self.started: list[RunningProgram] = []
        """Programs that are started, in their order."""
        self.grace = max(program.grace for program in programs)
        self.ends = [0.0] * len(programs)
        """Time at which each was seen to have ended."""
        self.reasons = [""] * len(programs)
        """Reason why each was told to end; empty where it was not."""
        self._patience, self._stop = patience, stop
        self._deadline, self._why = math.inf, "stopped"
        if limit is not None:
            self._deadline = time.monotonic() + limit
            self._why = f"did not end within {limit:g} s"

    def __call__(self) -> None:
        """Record ends, and end the programs whose time is over."""
        now = time.monotonic()
        for number, running in enumerate(self.started):
            if not self.ends[number] and running.code is not None:
                self.ends[number] = now
                if running.code:
                    self._shorten(now + self._patience, "still waited for the others")
        if self._stop is not None and self._stop.is_set():
            self._shorten(now, "stopped")
        if now >= self._deadline:
            for number, running in enumerate(self.started):
                if not self.ends[number]:
                    self._end(number, running, now)

    def _shorten(self, deadline: float, why: str) -> None:
        if deadline < self._deadline:
            self._deadline, self._why = deadline, why

    def _end(self, number: int, running: RunningProgram, now: float) -> None:
        if self.grace and not self.reasons[number]:
            running.tell(signal.SIGTERM)
        self.reasons[number] = self.reasons[number] or self._why
        if now >= self._deadline + self.grace:
            running.kill()
