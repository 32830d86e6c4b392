"""Runs programs: to ask them something, to follow what they write, or several side by side.

Each gets a session of its own, a limit, and an end with all that it has started, whatever happens
here. Nothing else in the package starts or ends a program, but for what is in payload/, which runs
in somebody else's Python.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import selectors
import signal
import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from patchgen.errors import ToolError
from patchgen.system.program import CompletedRun, Program, RunningProgram, start, without_git

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from threading import Event
    from typing import IO

    Take = Callable[[bytes], object]

__all__ = ["ERR", "KEPT", "LIMIT", "OUT", "CompletedRun", "NoAnswer", "Program", "Tail", "capture",
           "run", "shell_code", "side_by_side", "stream", "without_git"]  # fmt: skip

LIMIT = 60.0
"""Seconds for a program that is only asked something: many times what any takes."""
OUT, ERR = "out", "err"
KEPT = 1 << 20
"""Bytes that are kept of what a program writes that is not trusted, from its end."""

_TAIL = 20  # lines of a failed program's stderr that are shown
_POLL = 0.2  # seconds
_GRACE = 10.0  # seconds that the others have to notice that one has failed
_READ = 1 << 16  # bytes
_WRITTEN = 1 << 12  # bytes: what a pipe that can be written to takes at once
_LONGEST = 1 << 20  # bytes of a line that are held back until its end comes


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
    overdue = _overdue(program, limit, stop)
    with closing(Pipes()) as pipes, start(program) as running:
        _connect(pipes, running, out, err)
        _attend([running], pipes, overdue, program.grace)
    return CompletedRun(running.returned, bytes(out), bytes(err))


def stream(  # noqa: PLR0913  # each is a part of how a program is run
    program: Program,
    output: Callable[[str, bytes], object],
    *,
    limit: float | None,
    stop: Event | None = None,
    merged: bool = False,
    named: Sequence[str] = (),
) -> int:
    """Runs a program to its end and gives out each line as it is written; returns the return code.

    Args:
        program: to be run.
        output: gets OUT, ERR or the path of a named pipe, and a line of it with its end.
        limit: seconds; after that it is ended, with all that it has started.
        stop: ends it likewise once it is set.
        merged: all comes as OUT, in the order in which it was written.
        named: where named pipes are made for as long as it runs, which it may open and close.

    Raises:
        ToolError: it cannot be started.
        NoAnswer: it was ended, because of its limit or because it was told to stop.
        OSError: the file system has no named pipes.
    """

    def lines(name: str) -> Lines:
        return Lines(functools.partial(output, name))

    overdue = _overdue(program, limit, stop)
    with contextlib.ExitStack() as stack:
        pipes = stack.enter_context(closing(Pipes()))
        for path in named:
            stack.enter_context(pipes.named(path, lines(path)))
        with start(program, merged=merged) as running:
            _connect(pipes, running, lines(OUT), lines(ERR))
            _attend([running], pipes, overdue, program.grace)
    return running.returned


def side_by_side(
    programs: Sequence[Program], *, limit: float, grace: float = _GRACE
) -> list[CompletedRun]:
    """Runs programs, supervised, until all have ended, and ends those that take longer.

    Args:
        programs: started in this order.
        limit: seconds that they may take.
        grace: seconds that the others have left once one has failed.

    Returns:
        How each ended, with at most a MiB of what it wrote, from the end.

    Raises:
        ToolError: one cannot be started.
    """
    kept = [(Tail(KEPT), Tail(KEPT)) for _ in programs]
    killed = [""] * len(programs)
    with contextlib.ExitStack() as stack:
        pipes = stack.enter_context(closing(Pipes()))
        started = []
        for program, (out, err) in zip(programs, kept):
            # No other process has its pipes once it has ended, so they end as well.
            started.append(stack.enter_context(start(replace(program, supervised=True))))
            _connect(pipes, started[-1], out, err)
        why, deadline, failed = f"did not end within {limit:g} s", time.monotonic() + limit, False

        def overdue() -> None:
            nonlocal why, deadline, failed
            now = time.monotonic()
            if not failed and any(running.code for running in started):
                failed = True
                if now + grace < deadline:
                    deadline, why = now + grace, "still waited for the others"
            if now >= deadline:
                for number, running in enumerate(started):
                    if running.code is None:
                        killed[number] = why
                        running.kill()

        _attend(started, pipes, overdue, 0)
    return [
        CompletedRun(running.returned, bytes(out), bytes(err), how)
        for running, (out, err), how in zip(started, kept, killed)
    ]


class Tail:
    """Bytes that were read: all, or as many of the last as are wanted."""

    def __init__(self, most: int | None = None) -> None:
        """Keeps all, or `most` bytes."""
        self._most = most
        self._read = bytearray()

    def __call__(self, read: bytes) -> None:
        """Takes more of it."""
        self._read += read
        if self._most is not None and len(self._read) > 2 * self._most:
            del self._read[: -self._most]

    def __bytes__(self) -> bytes:
        return bytes(self._read if self._most is None else self._read[-self._most :])


class Lines:
    """Gives out what was read line by line, each with its end.

    A carriage return ends a line too, since progress bars are told apart by it.
    """

    def __init__(self, output: Take) -> None:
        """Gives them to `output`."""
        self._output = output
        self._pending = bytearray()

    def __call__(self, read: bytes) -> None:
        """Gives out the lines that are whole with these bytes; without bytes, what is left."""
        self._pending += read
        # One at the very end may be followed by a newline.
        done = max(self._pending.rfind(b"\n"), self._pending.rfind(b"\r", 0, -1)) + 1
        if not read or (done == 0 and len(self._pending) > _LONGEST):
            done = len(self._pending)
        whole = bytes(self._pending[:done])
        del self._pending[:done]
        for line in whole.splitlines(keepends=True):
            self._output(line if line.endswith((b"\n", b"\r")) else line + b"\n")


class Pipes:
    """This process's ends of pipes, and who takes what is read from them."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._unwritten: dict[int, tuple[IO[bytes], bytes]] = {}
        self._left = 0

    def read(self, descriptor: int, take: Take) -> None:
        """Gives what is read to `take`, and b"" at the end."""
        self._selector.register(descriptor, selectors.EVENT_READ, take)
        self._left += 1

    def write(self, file: IO[bytes], data: bytes) -> None:
        """Writes, then closes the file. Where nobody reads it, the rest is dropped."""
        self._unwritten[file.fileno()] = file, data
        self._selector.register(file, selectors.EVENT_WRITE)

    @contextlib.contextmanager
    def named(self, path: str, take: Take) -> Iterator[None]:
        """Makes a named pipe, which has no end before the block has.

        One program may close it and another open it again. What is left in it at the end of a block
        that does not raise is given out, then b"".

        Raises:
            OSError: the file system has no named pipes.
        """
        os.mkfifo(path)
        descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(descriptor, selectors.EVENT_READ, take)
        try:
            yield
            with contextlib.suppress(BlockingIOError):
                while True:
                    take(os.read(descriptor, _READ))
            take(b"")
        finally:
            self._selector.unregister(descriptor)
            os.close(descriptor)

    @property
    def open(self) -> bool:
        """True as long as a pipe that has an end has not come to it."""
        return self._left > 0

    def turn(self, limit: float) -> None:
        """Moves what can be moved now; waits for it at most `limit` seconds.

        Raises:
            Whatever one who takes has raised.
        """
        if not self.open:
            time.sleep(limit)
            return
        for key, _ in self._selector.select(limit):
            if key.events == selectors.EVENT_WRITE:
                self._write(key.fd)
                continue
            read = os.read(key.fd, _READ)
            if not read:
                self._selector.unregister(key.fd)
                self._left -= 1
            key.data(read)

    def _write(self, descriptor: int) -> None:
        file, rest = self._unwritten[descriptor]
        try:
            rest = rest[os.write(descriptor, rest[:_WRITTEN]) :]
        except BrokenPipeError:
            rest = b""
        self._unwritten[descriptor] = file, rest
        if not rest:
            self._selector.unregister(descriptor)
            del self._unwritten[descriptor]
            file.close()

    def close(self) -> None:
        """Forgets all pipes."""
        self._selector.close()


def _connect(
    pipes: Pipes,
    running: RunningProgram,
    out: Callable[[bytes], None],
    err: Callable[[bytes], None],
) -> None:
    if running.stdin is not None:
        pipes.write(running.stdin, running.program.stdin)
    if running.stdout is not None:
        pipes.read(running.stdout.fileno(), out)
    if running.stderr is not None:
        pipes.read(running.stderr.fileno(), err)


def _overdue(program: Program, limit: float | None, stop: Event | None) -> Callable[[], None]:
    """Function that raises once a program has to end; raises itself where it is not to begin."""
    deadline = math.inf if limit is None else time.monotonic() + limit

    def overdue() -> None:
        if stop is not None and stop.is_set():
            raise NoAnswer(f"{program.line}: stopped", reason="stopped")
        if time.monotonic() >= deadline:
            why = f"no answer in {limit:g} s"
            raise NoAnswer(f"{program.line}: {why}", reason=why)

    overdue()
    return overdue


def _attend(
    started: Sequence[RunningProgram], pipes: Pipes, overdue: Callable[[], None], grace: float
) -> None:
    """Serves the pipes until they have ended, and so have the programs."""
    try:
        _serve(started, pipes, overdue)
    except BaseException as error:
        if grace:
            number = signal.SIGINT if isinstance(error, KeyboardInterrupt) else signal.SIGTERM
            with contextlib.suppress(OSError):  # the output may be what is broken
                for running in started:
                    running.tell(number)
                _serve(started, pipes, _late(started, grace))
        raise


def _serve(started: Sequence[RunningProgram], pipes: Pipes, overdue: Callable[[], None]) -> None:
    while pipes.open or any(running.code is None for running in started):
        overdue()
        if pipes.open:
            pipes.turn(_POLL)
        else:
            for running in started:
                running.wait(_POLL / len(started))


def _late(started: Sequence[RunningProgram], grace: float) -> Callable[[], None]:
    """Function that raises once the grace period of programs that were told to end is over.

    Programs that these have started, and that may have their pipes, have no time of their own.
    """
    deadline = time.monotonic() + grace

    def late() -> None:
        nonlocal deadline
        if all(running.code is not None for running in started):
            deadline = min(deadline, time.monotonic() + _POLL)
        if time.monotonic() >= deadline:
            raise TimeoutError

    return late
