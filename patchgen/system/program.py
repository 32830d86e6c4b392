"""A program without a terminal, which ends with all processes that it started."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, final

from patchgen.errors import ToolError
from patchgen.system import signals
from patchgen.system.payload import supervisor
from patchgen.system.pipes import Pipes, Tail, Take

_POLL = 0.2  # seconds
_KEPT = 1 << 12  # bytes of the output of the program that was started last
_SUPERVISOR = os.path.abspath(supervisor.__file__)


@dataclass(frozen=True)
class Program:
    """A program to run, never through a shell."""

    command: Sequence[str | os.PathLike[str]]
    """Program and arguments."""
    cwd: str | os.PathLike[str] | None = None
    """Working directory; None: this process's."""
    env: Mapping[str, str] | None = None
    """Whole environment; None: this process's."""
    stdin: bytes = b""
    """Bytes of its input."""
    supervised: bool = False
    """Whether all its processes end when it ends, and when this process ends, even by a kill.

    That costs another process. Without it, processes left by a killed run end by themselves.
    """
    grace: float = 0.0
    """Seconds from the request to end (SIGTERM) until it is killed."""
    passed: Sequence[int] = ()
    """Descriptors that it inherits; if supervised, only its supervisor does."""
    reads: int | None = None
    """Descriptor that it reads instead of `stdin`."""
    merged: bool = False
    """Whether its stderr goes to its stdout."""
    for_git: bool = False
    """Whether `env` was made for git, which otherwise gets no GIT_* variables."""

    @property
    def line(self) -> str:
        """Command line for messages."""
        return " ".join(os.fspath(word) for word in self.command)


@dataclass(frozen=True)
class CompletedRun:
    """End of a program, and its output."""

    code: int
    """Return code as in subprocess: negative for a signal."""
    out: bytes
    err: bytes
    killed: str = ""
    """Why this process ended it, or empty."""
    ended: float = 0.0
    """Time of its end on the monotonic clock; 0 if unknown."""

    @property
    def how(self) -> str:
        """Description of its end; empty for success."""
        if self.killed:
            return self.killed
        if self.code < 0:
            return f"died of {name_signal(-self.code)}"
        return f"ended with exit code {self.code}" if self.code else ""

    def last_lines(self, count: int) -> list[str]:
        """Return the last lines of its stderr that are not blank."""
        lines = [line.strip() for line in self.err.decode(errors="replace").splitlines()]
        return [line for line in lines if line][-count:]


@dataclass(frozen=True)
class LatestProgram:
    """Program that was started last, and the end of its output."""

    line: str
    """Command line for messages."""
    output: Tail

    def last_lines(self, count: int) -> list[str]:
        """Return the last lines of its output."""
        return bytes(self.output).decode(errors="replace").splitlines()[-count:]


_LATEST: deque[LatestProgram] = deque(maxlen=1)


def find_latest() -> LatestProgram | None:
    """Return the program that was started last; None if there was none."""
    return _LATEST[0] if _LATEST else None


def with_temporary(directory: str, environ: Mapping[str, str] | None) -> dict[str, str]:
    """Return the environment (None: this process's) with another TMPDIR."""
    return {**(os.environ if environ is None else environ), "TMPDIR": directory}


def without_git(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without GIT_*, which in a git hook name another repository."""
    return {name: value for name, value in environ.items() if not name.startswith("GIT_")}


@final
class RunningProgram:
    """A started program, and this process's ends of its pipes.

    As a context it waits for the end; if the block raises, it first kills the program.
    """

    def __init__(
        self, program: Program, running: subprocess.Popen[bytes], hold: BinaryIO | None
    ) -> None:
        self.program = program
        self.stdin = running.stdin
        """Pipe that it reads; None where it reads nothing."""
        self.stdout = running.stdout
        self.stderr = running.stderr
        """Pipe of its messages; None where they go where stdout goes."""
        self._running = running
        self._hold = hold

    @property
    def code(self) -> int | None:
        """Return code as in subprocess, negative for a signal; None while it runs."""
        if self._running.returncode is not None:
            return self._running.returncode
        try:
            # Until the program is waited for, its process group's number is not reused.
            found = os.waitid(os.P_PID, self._running.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:  # this process was started with SIGCHLD ignored
            return self._running.poll()
        if found is None:
            return None
        return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status

    @property
    def returned(self) -> int:
        """Return code, after the end."""
        return self._running.wait()

    def connect(self, pipes: Pipes, out: Take, err: Take) -> None:
        """Connect its pipes, and pass on its output, whose end is kept for `find_latest`."""
        latest = LatestProgram(self.program.line, Tail(_KEPT))
        _LATEST.append(latest)

        def keep(take: Take) -> Take:
            def both(read: bytes) -> None:
                latest.output(read)
                take(read)

            return both

        if self.stdin is not None:
            pipes.write(self.stdin, self.program.stdin)
        if self.stdout is not None:
            pipes.read(self.stdout.fileno(), keep(out))
        if self.stderr is not None:
            pipes.read(self.stderr.fileno(), keep(err))

    def wait(self, limit: float) -> None:
        """Wait for its end, at most `limit` seconds."""
        deadline, delay = time.monotonic() + limit, 0.001
        while self.code is None and time.monotonic() < deadline:
            time.sleep(delay)
            delay = min(2 * delay, 0.05)

    def tell(self, number: int) -> None:
        """Send a signal to the program alone; a supervisor forwards it."""
        if self.code is None:
            os.kill(self._running.pid, number)

    def kill(self) -> None:
        """Kill the program, and all processes in its group or under its supervisor."""
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            if self._hold is not None:
                self._hold.close()
                # A killed supervisor leaves the processes in its group.
                os.waitid(os.P_PID, self._running.pid, os.WEXITED | os.WNOWAIT)
            if self._running.returncode is None:
                os.killpg(self._running.pid, signal.SIGKILL)
        self._running.wait()

    def __enter__(self) -> RunningProgram:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self.kill()
        self._running.wait()
        for pipe in (self.stdin, self.stdout, self.stderr):
            if pipe is not None:
                pipe.close()


@contextlib.contextmanager
def start(program: Program) -> Iterator[RunningProgram]:
    """Start a program; it has ended when the block has. All programs are started here.

    If the block raises, the program is killed with its processes; otherwise the block waits for it.

    Raises:
        ToolError: it cannot be started.
    """
    command = [os.fspath(argument) for argument in program.command]
    passed = list(program.passed)
    hold = status = None
    with contextlib.ExitStack() as stack:
        if program.supervised:
            stop, hold = _pipe(stack)
            status, reporter = _pipe(stack)
            passed += [stop.fileno(), reporter.fileno()]
            command[:0] = [sys.executable, "-IS", _SUPERVISOR, *map(str, passed[-2:])]
        stdin = subprocess.PIPE if program.stdin else subprocess.DEVNULL
        try:
            running = subprocess.Popen(
                command, cwd=program.cwd, env=_environ(program), pass_fds=passed,
                stdin=stdin if program.reads is None else program.reads,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if program.merged else subprocess.PIPE,
                bufsize=0, start_new_session=not program.supervised,
            )  # fmt: skip
        except OSError as error:
            raise _explain_failure(program, error) from error
        session = stack.enter_context(RunningProgram(program, running, hold))
        if status is not None:
            reporter.close()
            number = int(status.read() or b"0")
            if number:
                raise _explain_failure(program, OSError(number, os.strerror(number)))
        yield session


def attend(
    started: Sequence[RunningProgram],
    pipes: Pipes,
    overdue: Callable[[], None],
    grace: float,
    poll: float = _POLL,
) -> None:
    """Serve pipes and programs until all have ended.

    `overdue` is called repeatedly. If it raises, the programs are asked to end within `grace`
    seconds, which then only Ctrl-C shortens.
    """
    try:
        _serve(started, pipes, overdue, poll)
    except BaseException as error:
        if grace:
            number = signal.SIGINT if isinstance(error, KeyboardInterrupt) else signal.SIGTERM
            with contextlib.suppress(OSError), signals.only_interrupts():
                for running in started:
                    running.tell(number)
                _serve(started, pipes, _late(started, grace), poll)
        raise


def _serve(
    started: Sequence[RunningProgram], pipes: Pipes, overdue: Callable[[], None], poll: float
) -> None:
    while pipes.open or any(running.code is None for running in started):
        overdue()
        if pipes.open:
            pipes.turn(poll)
        else:
            for running in started:
                running.wait(poll / len(started))


def _late(started: Sequence[RunningProgram], grace: float) -> Callable[[], None]:
    """Return a function that raises when the grace period of programs is over.

    Their child processes, which may hold their pipes, get no time of their own.
    """
    deadline = time.monotonic() + grace

    def late() -> None:
        nonlocal deadline
        if all(running.code is not None for running in started):
            deadline = min(deadline, time.monotonic() + _POLL)
        if time.monotonic() >= deadline:
            raise TimeoutError

    return late


def _pipe(stack: contextlib.ExitStack) -> tuple[BinaryIO, BinaryIO]:
    read, write = os.pipe()
    return stack.enter_context(open(read, "rb")), stack.enter_context(open(write, "wb"))


def _environ(program: Program) -> Mapping[str, str] | None:
    if program.for_git or os.path.basename(os.fspath(program.command[0])) != "git":
        return program.env
    return without_git(os.environ if program.env is None else program.env)


def _explain_failure(program: Program, error: OSError) -> ToolError:
    name, cwd = os.fspath(program.command[0]), program.cwd
    if cwd is not None and not os.path.isdir(cwd):
        why = "no directory"
        return ToolError(f"{name}: cannot run in {os.fspath(cwd)}: {why}", reason=why)
    reason = error.strerror or str(error)
    advice = "is it installed and on PATH?"
    if error.errno in (errno.EMFILE, errno.ENFILE):
        advice = "end other programs, or raise the limit (ulimit -n)"
    return ToolError(f"{name}: {reason}; {advice}", reason=reason)


def name_signal(number: int) -> str:
    """Return the name of a signal, such as SIGKILL."""
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"
