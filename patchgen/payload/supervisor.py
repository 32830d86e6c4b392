"""Runs a command and takes all that it started along when its parent dies or says stop.

A program of its own, given to an interpreter: `supervisor.py FD COMMAND...`. FD is the reading end
of a pipe whose other end the parent holds, so that it closes however the parent ends. Processes of
the command whose own parent is gone become children of the supervisor.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys

_PR_SET_CHILD_SUBREAPER = 36  # prctl(2)


def _children() -> "list[int]":
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
        return [int(pid) for pid in file.read().split()]


def _end_all() -> None:
    """Ends all children, and theirs, which are ours as soon as their parent is gone."""
    while True:
        children = _children()
        if not children:
            return
        for pid in children:
            os.kill(pid, signal.SIGKILL)
        for pid in children:
            os.waitpid(pid, 0)


def main() -> int:
    """The command's return code."""
    stop = int(sys.argv[1])
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    command = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL)
    while command.poll() is None:
        ready, _, _ = select.select([stop, woken], [], [])
        if stop in ready:
            break
        os.read(woken, 4096)
    _end_all()
    code = command.returncode
    return 128 + signal.SIGKILL if code is None else code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
