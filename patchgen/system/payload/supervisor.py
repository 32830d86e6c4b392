"""Runs a command and takes all that it started along when its parent dies or says stop.

A program of its own, given to an interpreter: `supervisor.py STOP TOLD COMMAND...`. STOP is the
reading end of a pipe whose other end the parent holds, so that it closes however the parent ends.
TOLD is the writing end of a pipe: it gets an error number where the command cannot be started, and
is closed. SIGINT and SIGTERM are handed on to the command. Processes of the command whose own
parent is gone become children of the supervisor, which ends as the command did, or with 1 where it
fails itself; in either case nothing of the command is left.
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


def main() -> None:
    """Runs the command."""
    stop = int(sys.argv[1])
    handed = []  # type: list[int]
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: handed.append(number))
    signal.set_wakeup_fd(wake)
    waiting = select.poll()  # select() takes no descriptor above 1023
    for descriptor in (stop, woken):
        waiting.register(descriptor, select.POLLIN)
    _leave_terminal()
    command = _started(int(sys.argv[2]))
    try:
        while command.poll() is None:
            if any(ready == stop for ready, _ in waiting.poll()):
                break
            os.read(woken, 4096)
            while handed:
                command.send_signal(handed.pop(0))
    finally:
        _end_all()
    _end_as(-signal.SIGKILL if command.returncode is None else command.returncode)


if __name__ == "__main__":
    main()
