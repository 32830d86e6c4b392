"""Runs a command and takes all that it started along when its parent dies or says stop.

A program of its own, given to an interpreter: `supervisor.py STOP TOLD COMMAND...`. STOP is the
reading end of a pipe whose other end the parent holds, so that it closes however the parent ends.
TOLD is the writing end of a pipe: it gets an error number where the command cannot be started, and
is closed. Signals are handed on to the command. Processes of the command whose own parent is gone
become children of the supervisor. If a signal has ended the command, they get it as well, and may
go on until the parent says stop. The supervisor ends as the command did, or with 1 where it fails
itself; in either case nothing of the command is left.
"""

import contextlib
import ctypes
import fcntl
import os
import resource
import select
import signal
import subprocess
import sys
import termios

_PR_SET_CHILD_SUBREAPER = 36  # prctl(2)
_ENDING = (signal.SIGINT, signal.SIGTERM)
_OWN = "CHLD HUP KILL STOP TSTP TTIN TTOU  BUS FPE ILL SEGV SYS TRAP"  # the last: faults
HANDED = {*range(1, 32), *range(signal.SIGRTMIN, signal.SIGRTMAX + 1)}
HANDED -= {getattr(signal, "SIG" + name) for name in _OWN.split()}
"""Signals that go on to the command."""
_POLL = 100  # milliseconds


def _children() -> "list[int]":
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
        return [int(pid) for pid in file.read().split()]


def _end_all() -> None:
    """Ends all children, and theirs, which are ours as soon as their parent is gone."""
    with contextlib.suppress(ChildProcessError):  # there is none
        while True:
            for pid in _children():
                os.kill(pid, signal.SIGKILL)
            os.waitpid(-1, 0)


def _leave_terminal() -> None:
    """Leaves the terminal and its signals, as for a session of its own.

    Linux shares processors among sessions first, and starves some of those whose threads poll.
    """
    with contextlib.suppress(OSError):  # there is no terminal
        os.setpgid(0, 0)
        with open("/dev/tty", "rb", buffering=0) as terminal:
            fcntl.ioctl(terminal, termios.TIOCNOTTY)


def _started(told: int) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(sys.argv[3:])
    except OSError as error:
        os.write(told, str(error.errno).encode("ascii"))
        sys.exit(1)
    finally:
        os.close(told)


def _end_as(code: int) -> None:
    """Ends this process as the command has ended: with its exit code, or by its signal."""
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the command has left its own
        with contextlib.suppress(OSError):  # SIGKILL has no handler
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


def _take(handed: "list[int]") -> int:
    """Takes a signal. That of Ctrl-C goes to our group at once, since shells wait for its end."""
    number = handed.pop(0)
    if number == signal.SIGINT:
        handler = signal.signal(number, signal.SIG_IGN)
        os.killpg(0, number)
        signal.signal(number, handler)
    return number


def _tell(number: int, pids: "list[int]") -> None:
    """Sends a signal to those that have not got it with our group."""
    for pid in pids:
        if number != signal.SIGINT or os.getpgid(pid) != os.getpgrp():
            os.kill(pid, number)


def _end_orphans(number: int, waiting: "select.poll", stop: int, handed: "list[int]") -> None:
    """Hands a signal on to what the command has left, and waits for its end or for the parent."""
    told = []  # type: list[int]
    while True:
        with contextlib.suppress(ChildProcessError):  # there is none
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if handed:
            number, told = _take(handed), []
        children = _children()
        _tell(number, [pid for pid in children if pid not in told])
        told = children
        if not children or any(ready == stop for ready, _ in waiting.poll(_POLL)):
            return


def main() -> None:
    """Runs the command."""
    stop = int(sys.argv[1])
    handed = []  # type: list[int]
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in HANDED:
        if number in _ENDING or signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, lambda number, _: handed.append(number))
    signal.set_wakeup_fd(wake)
    waiting = select.poll()  # select() takes no descriptor above 1023
    for descriptor in (stop, woken):
        waiting.register(descriptor, select.POLLIN)
    _leave_terminal()
    command = _started(int(sys.argv[2]))
    last = 0
    try:
        while command.poll() is None:
            if any(ready == stop for ready, _ in waiting.poll()):
                break
            os.read(woken, 4096)
            while handed:
                last = _take(handed)
                _tell(last, [command.pid])
        last = _take(handed) if handed else last
        if last and command.returncode is not None and last in (*_ENDING, -command.returncode):
            waiting.unregister(woken)
            _end_orphans(last, waiting, stop, handed)
    finally:
        _end_all()
    _end_as(-signal.SIGKILL if command.returncode is None else command.returncode)


if __name__ == "__main__":
    main()
