"""Runs a command, and kills all its processes when the parent dies or says stop.

A program of its own, given to an interpreter: `supervisor.py STOP TOLD COMMAND...`. STOP is the
reading end of a pipe whose other end the parent holds, so that it closes however the parent ends.
TOLD is the writing end of a pipe: it gets an error number if the command cannot be started, and is
closed. Signals are forwarded to the command, and ending ones also to the processes that it started.
Orphaned processes of the command become children of the supervisor. If a signal ended the command,
they get it as well, and may go on until the parent says stop. The supervisor ends as the command
did, or with 1 if it fails itself. In either case no process of the command is left.

Some kernels and sandboxes lack what this uses. Without the children of a process in /proc, it looks
for parents in /proc/*/stat. Without /proc, or without orphans that become its children, it kills
the processes in its group.
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
import time

_PR_SET_CHILD_SUBREAPER = 36  # prctl(2)
_ENDING = (signal.SIGINT, signal.SIGTERM)
_OWN = "CHLD HUP KILL STOP TSTP TTIN TTOU  BUS FPE ILL SEGV SYS TRAP"  # the last: faults
HANDED = {*range(1, 32), *range(signal.SIGRTMIN, signal.SIGRTMAX + 1)}
"""Signals that are forwarded to the command."""
HANDED -= {getattr(signal, "SIG" + name) for name in _OWN.split()}
"""Signals that go on to the command."""
_POLL = 100  # milliseconds
_FORKED = 0x40  # PF_FORKNOEXEC of Linux: the process runs the program of its parent
_TRIES = 50  # looks for children that /proc does not show


def _read(pid: int, name: str) -> str:
    with open(f"/proc/{pid}/{name}", errors="replace") as file:  # names may have any bytes
        return file.read()


def _stat(pid: int) -> "list[str]":
    """Return the state of a process, its parent, its group, and further fields of proc(5)."""
    return _read(pid, "stat").rpartition(")")[2].split()


def _children(pid: int) -> "list[int]":
    """Return the children of a process; none if it has ended, or without /proc."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
        return [
            int(one) for thread in threads for one in _read(pid, f"task/{thread}/children").split()
        ]
    except OSError:  # it has ended, or the kernel is without CONFIG_PROC_CHILDREN
        return [other for other, parent in _parents().items() if parent == pid]


def _parents() -> "dict[int, int]":
    """Return the processes of this namespace with their parents; empty without /proc."""
    found = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdecimal():
            with contextlib.suppress(OSError):  # it has ended, or is hidden
                found[int(name)] = int(_stat(int(name))[1])
    return found


def _job(pid: int) -> "list[int]":
    """Return a process and its descendants that are to get an ending signal, as from torchrun.

    They are in this process group. The jobs of a shell may have groups of their own; a shell waits
    for its job before it runs a trap. Processes that another program put into a group are left to
    that program, and workers of multiprocessing to their parent, which fails if one dies.
    """
    signalled = [pid]
    with contextlib.suppress(OSError):  # it has ended, or is another user's
        shell = os.path.basename(os.readlink(f"/proc/{pid}/exe")).endswith("sh")
        for child in _children(pid):
            with contextlib.suppress(OSError):  # likewise
                if shell or (os.getpgid(child) == os.getpgrp() and not _is_worker(child)):
                    signalled += _job(child)
    return signalled


def _is_worker(pid: int) -> bool:
    fields, command = _stat(pid), _read(pid, "cmdline")
    flags = int(fields[6])  # 0 where the kernel has none
    forked = flags & _FORKED if flags else command == _read(int(fields[1]), "cmdline")
    return bool(forked) or "from multiprocessing." in command


def _end_all(group: int) -> None:
    """Kill all children, and theirs, which become children as soon as their parent is gone.

    Args:
        group: process group that this process had before its own.
    """
    _end_group(group)
    left = _TRIES
    with contextlib.suppress(ChildProcessError):  # there is none
        while left:
            children = _children(os.getpid())
            for pid in children:
                os.kill(pid, signal.SIGKILL)
            if not os.waitpid(-1, 0 if children else os.WNOHANG)[0]:
                left -= 1
                time.sleep(_POLL / 1000 / _TRIES)


def _end_group(group: int) -> None:
    """Kill the other processes in the group of this one, which it then leaves."""
    own = os.getpgrp()
    with contextlib.suppress(OSError):  # there are none, or no process is left in the other group
        if own == os.getpid() and group:  # 0: a group of another namespace
            os.setpgid(0, group)
            os.killpg(own, signal.SIGKILL)


def _leave_terminal() -> None:
    """Leave the terminal and its signals, as for a session of its own.

    Linux shares processors among sessions first, and starves some of those whose threads poll.
    """
    with contextlib.suppress(OSError):  # there is no terminal
        os.setpgid(0, 0)
        with open("/dev/tty", "rb", buffering=0) as terminal:
            fcntl.ioctl(terminal, termios.TIOCNOTTY)


def _started(status: int) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(sys.argv[3:])
    except OSError as error:
        os.write(status, str(error.errno).encode("ascii"))
        sys.exit(1)
    finally:
        os.close(status)


def _end_as(code: int) -> None:
    """End this process as the command ended: with its exit code, or by its signal."""
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the command has dumped its own core
        with contextlib.suppress(OSError):  # SIGKILL has no handler
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
        code = 128 - code  # the first process of a namespace goes on
    sys.exit(code)


def _take(handed: "list[int]") -> int:
    """Take a signal. SIGINT goes to this process group at once, as shells wait for its end."""
    number = handed.pop(0)
    if number == signal.SIGINT:
        handler = signal.signal(number, signal.SIG_IGN)
        os.killpg(0, number)
        signal.signal(number, handler)
    return number


def _tell(number: int, pids: "list[int]") -> None:
    """Send a signal to processes that did not get it with this process group."""
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            if number != signal.SIGINT or os.getpgid(pid) != os.getpgrp():
                os.kill(pid, number)


def _end_orphans(
    number: int, signalled: "list[int]", waiting: "select.poll", stop: int, handed: "list[int]"
) -> None:
    """Forward a signal to orphans of the command; wait for their end or for the parent."""
    while True:
        with contextlib.suppress(ChildProcessError):  # there is none
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if handed:
            number, signalled = _take(handed), []
        children = _children(os.getpid())
        for child in children:
            if child not in signalled:
                _tell(number, _job(child))
                signalled.append(child)
        if not children or any(ready == stop for ready, _ in waiting.poll(_POLL)):
            return


def main() -> None:
    """Run the command."""
    stop = int(sys.argv[1])
    group = os.getpgrp()
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
    last, signalled = 0, []  # type: int, list[int]
    try:
        while command.poll() is None:
            if any(ready == stop for ready, _ in waiting.poll()):
                break
            os.read(woken, 4096)
            while handed:
                last = _take(handed)
                signalled = _job(command.pid) if last in _ENDING else [command.pid]
                _tell(last, signalled)
        if handed:
            last, signalled = _take(handed), []
        if last and command.returncode is not None and last in (*_ENDING, -command.returncode):
            waiting.unregister(woken)
            _end_orphans(last, signalled, waiting, stop, handed)
    finally:
        _end_all(group)
    _end_as(-signal.SIGKILL if command.returncode is None else command.returncode)


if __name__ == "__main__":
    main()
