"""Runs programs: to ask them something, to follow what they write, or several side by side.

Each has no terminal, but a limit, and an end with all that it has started, whatever happens here.
Nothing else in the package starts or ends a program, but for what is in payload/, which runs in
somebody else's Python.
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
"""Seconds for a program that is only asked something: many times what any takes."""
OUT, ERR = "out", "err"
KEPT = 1 << 20
"""Bytes that are kept of what a program writes that is not trusted, from its end."""

_TAIL = 20  # lines of a failed program's stderr that are shown
_SHORT = 0.05  # seconds, where it counts which of several programs ended first


class NoAnswer(ToolError):  # noqa: N818  # that is what there is
    """A program took too long, or was ended before."""


def run(  # noqa: PLR0913  # each is a part of how a program is run
    argv: Sequence[str | os.PathLike[str]],
    *,
    limit: float | None,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    stop: Event | None = None,
    supervised: bool = False,
) -> bytes:
    """Runs a program that is to succeed, and returns its standard output.

    Args:
        argv: the program and its arguments.
        limit: seconds; after that it is ended, with all that it has started.
        cwd: as in `Program`, and so are `env`, `stdin` and `supervised`.
        env: likewise.
        stdin: likewise.
        stop: ends it likewise once it is set.
        supervised: likewise.

    Raises:
        ToolError: the program is missing, or its return code is not 0.
        NoAnswer: it was ended.
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
    """A return code as a shell has it: for a signal, 128 and its number."""
    return code if code >= 0 else 128 - code


def capture(program: Program, *, limit: float | None, stop: Event | None = None) -> CompletedRun:
    """Runs a program to its end, whatever its return code.

    Raises:
        ToolError: it cannot be started.
        NoAnswer: it was ended, because of its limit or because it was told to stop.
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
    """Runs a program to its end and gives out each line as it is written; returns the return code.

    Args:
        program: to be run.
        output: gets OUT or ERR, and a line of it with its end.
        limit: seconds; after that it is ended, with all that it has started.
        stop: ends it likewise once it is set.

    Raises:
        ToolError: it cannot be started.
        NoAnswer: it was ended, because of its limit or because it was told to stop.
    """
    out, err = (Lines(functools.partial(output, name)) for name in (OUT, ERR))
    return _follow(program, out, err, limit, stop)


def _follow(program: Program, out: Take, err: Take, limit: float | None, stop: Event | None) -> int:
    """Runs a program to its end, and hands on what it writes; returns the return code."""
    deadline = math.inf if limit is None else time.monotonic() + limit

    def check() -> None:
        if stop is not None and stop.is_set():
            raise NoAnswer(f"{program.line}: stopped", reason="stopped")
        if time.monotonic() >= deadline:
            why = f"no answer in {limit:g} s"
            raise NoAnswer(f"{program.line}: {why}", reason=why)

    check()  # it need not begin
    with closing(Pipes()) as pipes, start(program) as running:
        running.connect(pipes, out, err)
        attend([running], pipes, check, program.grace)
    return running.returned


def side_by_side(
    programs: Sequence[Program],
    *,
    limit: float | None,
    patience: float,
    output: Callable[[int, str, bytes], object] | None = None,
    stop: Event | None = None,
) -> list[CompletedRun]:
    """Runs programs, supervised, until all have ended, and ends those that take longer.

    Signals that do not end this process go on to each.

    Args:
        programs: started in this order.
        limit: seconds that they may take; None: any time.
        patience: seconds that the others have left once one has failed.
        output: gets the number of a program, OUT or ERR, and a line of it with its end.
        stop: ends them once it is set.

    Returns:
        How each ended. Without `output`, with at most a MiB of what it wrote, from the end.

    Raises:
        ToolError: one cannot be started.
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
            # No other process has its pipes once it has ended, so they end as well.
            started.append(stack.enter_context(start(replace(program, supervised=True))))
            out, err = kept[number] if output is None else (
                Lines(functools.partial(output, number, name)) for name in (OUT, ERR)
            )  # fmt: skip
            started[-1].connect(pipes, out, err)
        attend(started, pipes, ending, ending.grace, _SHORT)
    return [
        CompletedRun(running.returned, bytes(out), bytes(err), how, when or math.inf)
        for running, (out, err), how, when in zip(started, kept, ending.told, ending.seen)
    ]


class _Ending:
    """Time at which programs that run side by side have to end, and what was seen of their ends."""

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
        self.seen = [0.0] * len(programs)
        """Time at which each was seen to have ended."""
        self.told = [""] * len(programs)
        """Reason why each was told to end; empty where it was not."""
        self._patience, self._stop = patience, stop
        self._deadline, self._why = math.inf, "stopped"
        if limit is not None:
            self._deadline = time.monotonic() + limit
            self._why = f"did not end within {limit:g} s"

    def __call__(self) -> None:
        """Looks at the programs, and ends those whose time is over."""
        now = time.monotonic()
        for number, running in enumerate(self.started):
            if not self.seen[number] and running.code is not None:
                self.seen[number] = now
                if running.code:
                    self._shorten(now + self._patience, "still waited for the others")
        if self._stop is not None and self._stop.is_set():
            self._shorten(now, "stopped")
        if now >= self._deadline:
            for number, running in enumerate(self.started):
                if not self.seen[number]:
                    self._end(number, running, now)

    def _shorten(self, deadline: float, why: str) -> None:
        if deadline < self._deadline:
            self._deadline, self._why = deadline, why

    def _end(self, number: int, running: RunningProgram, now: float) -> None:
        if self.grace and not self.told[number]:
            running.tell(signal.SIGTERM)
        self.told[number] = self.told[number] or self._why
        if now >= self._deadline + self.grace:
            running.kill()
