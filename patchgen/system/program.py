"""A program away from the terminal, which ends with all that it has started."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, final

from patchgen.errors import ToolError
from patchgen.system import signals
from patchgen.system.payload import supervisor
from patchgen.system.pipes import Pipes, Take

_POLL = 0.2  # seconds
_SUPERVISOR = os.path.abspath(supervisor.__file__)


@dataclass(frozen=True)
class Program:
    """A program to run, never through a shell."""

    command: Sequence[str | os.PathLike[str]]
    """The program and its arguments."""
    cwd: str | os.PathLike[str] | None = None
    """Directory that it runs in; None for ours."""
    env: Mapping[str, str] | None = None
    """Environment, whole; None for ours."""
    stdin: bytes = b""
    """Bytes that it reads."""
    supervised: bool = False
    """True: all that it has started ends when it ends, and when this process does, however.

    That costs another process; without it, what is left of a killed run ends by itself.
    """
    grace: float = 0.0
    """Seconds that it has to end by itself, once it is told to, before it is killed."""
    passed: Sequence[int] = ()
    """Descriptors that it inherits; where it is supervised, only its supervisor does."""
    reads: int | None = None
    """Descriptor that it reads instead of `stdin`."""
    merged: bool = False
    """True: its stderr goes where its stdout goes."""
    for_git: bool = False
    """True: `env` was made for git, which else gets no GIT_* of it."""

    @property
    def line(self) -> str:
        """Command line, for messages."""
        return " ".join(os.fspath(word) for word in self.command)


@dataclass(frozen=True)
class CompletedRun:
    """End of a program, and what it wrote."""

    code: int
    """Return code as in subprocess: negative for a signal."""
    out: bytes
    err: bytes
    killed: str = ""
    """Reason why it was ended by us, or empty."""
    ended: float = 0.0
    """Time at which it was seen to have ended, on a clock of its own; 0 where that is not known."""

    @property
    def how(self) -> str:
        """End in words; empty where all is well."""
        if self.killed:
            return self.killed
        if self.code < 0:
            return f"died of {name_signal(-self.code)}"
        return f"ended with exit code {self.code}" if self.code else ""

    def last_lines(self, count: int) -> list[str]:
        """The end of what it wrote for people."""
        lines = [line.strip() for line in self.err.decode(errors="replace").splitlines()]
        return [line for line in lines if line][-count:]


def with_temporary(directory: str, environ: Mapping[str, str] | None) -> dict[str, str]:
    """An environment, else ours, with another directory for temporary files."""
    return {**(os.environ if environ is None else environ), "TMPDIR": directory}


def without_git(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without GIT_*: inside a git hook these point at another repository."""
    return {name: value for name, value in environ.items() if not name.startswith("GIT_")}


@final
class RunningProgram:
    """A program that was started, and our ends of its pipes.

    As a context it waits for the end; where the block raises, it kills before.
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
            # As long as it is not waited for, nothing else gets the number of its group.
            found = os.waitid(os.P_PID, self._running.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:  # whoever started us ignores SIGCHLD
            return self._running.poll()
        if found is None:
            return None
        return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status

    @property
    def returned(self) -> int:
        """Return code, after the end."""
        return self._running.wait()

    def connect(self, pipes: Pipes, out: Take, err: Take) -> None:
        """Connects its pipes, and hands on what is read from them."""
        if self.stdin is not None:
            pipes.write(self.stdin, self.program.stdin)
        if self.stdout is not None:
            pipes.read(self.stdout.fileno(), out)
        if self.stderr is not None:
            pipes.read(self.stderr.fileno(), err)

    def wait(self, limit: float) -> None:
        """Waits for its end, but at most `limit` seconds."""
        deadline, delay = time.monotonic() + limit, 0.001
        while self.code is None and time.monotonic() < deadline:
            time.sleep(delay)
            delay = min(2 * delay, 0.05)

    def tell(self, number: int) -> None:
        """Sends a signal to the program alone; a supervisor hands it on."""
        if self.code is None:
            os.kill(self._running.pid, number)

    def kill(self) -> None:
        """Ends it, with all that is in its process group or under its supervisor."""
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            if self._hold is not None:
                self._hold.close()
                # A supervisor that was killed itself has left what is in its group.
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
    """The only place that starts a program. It has ended when the block has.

    Where the block raises, all of it is killed before; else the block has seen its end.

    Raises:
        ToolError: it cannot be started.
    """
    command = [os.fspath(argument) for argument in program.command]
    passed = list(program.passed)
    hold = told = None
    with contextlib.ExitStack() as stack:
        if program.supervised:
            stop, hold = _pipe(stack)
            told, tells = _pipe(stack)
            passed += [stop.fileno(), tells.fileno()]
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
        if told is not None:
            tells.close()
            number = int(told.read() or b"0")
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
    """Serves the pipes until they have ended, and so have the programs.

    Where `overdue`, which is called again and again, raises, they are told to end within `grace`.
    Then only Ctrl-C shortens that.
    """
    try:
        _serve(started, pipes, overdue, poll)
    except BaseException as error:
        if grace:
            number = signal.SIGINT if isinstance(error, KeyboardInterrupt) else signal.SIGTERM
            with contextlib.suppress(OSError), signals.handing_on(signals.ENDING, lambda _: None):
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
    """Name of a signal, such as SIGKILL."""
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"
