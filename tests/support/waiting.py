"""Waits for what other processes do. Only a hang takes as long as the limits here."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

ENOUGH = 900.0  # seconds, many times what anything that is waited for takes on a busy machine
# Limits of the ranks. What does not have to be late has them as well, on a busy machine too.
GROUP = 60.0  # seconds, the timeout of a group, which no test waits for
SHORT = 8.0  # seconds, the timeout of a group that a test waits for
LIMIT_MS = 3_000  # SWITCHML_TIMEOUT_MS of a test that waits for it


def captured(
    command: Sequence[str | Path],
    *,
    check: bool = False,
    timeout: float | None = ENOUGH,
    **more: Any,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, and return its output as text."""
    return subprocess.run(
        command, capture_output=True, text=True, check=check, timeout=timeout, **more
    )


def until(
    holds: Callable[[], object],
    running: subprocess.Popen[str] | subprocess.Popen[bytes] | None = None,
) -> None:
    """Wait for a condition; fail if it never holds, or if the process ends before."""
    deadline = time.monotonic() + ENOUGH
    while not holds():
        ended = running is not None and running.poll() is not None
        assert not ended or holds(), "it has ended"
        late = time.monotonic() >= deadline
        assert not late, f"it does not come about\n{stacks([running.pid] if running else [])}"
        time.sleep(0.02)


def alive(pid: int | str) -> bool:
    """Return whether a process runs; zombies have ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def descendants(pid: int) -> list[int]:
    """Return the descendants of a process."""
    children: list[int] = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                children += map(int, file.read().split())
    return [one for child in children for one in (child, *descendants(child))]


def stacks(pids: Iterable[int]) -> str:
    """Return where processes and their descendants wait, for the message of a test that hangs.

    With the files that each has open.
    """
    found = []
    for pid in itertools.chain.from_iterable((one, *descendants(one)) for one in pids):
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):  # it has ended meanwhile
            words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
            found += [
                f"process {pid}: {words.decode(errors='replace')}",
                *open_files(pid),
                _stack(pid),
            ]
    return "\n".join(found)


def open_files(pid: int) -> list[str]:
    """Return what a process has open, by the names in /proc."""
    found = []
    for one in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            found.append(os.readlink(one))
    return found


def _stack(pid: int) -> str:
    if shutil.which("gdb"):
        command = ["gdb", "-nx", "-batch", "-p", str(pid), "-ex", "thread apply all backtrace 40"]
        return captured(command, timeout=120).stdout
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return "\n".join(f"thread {one.name}: {(one / 'wchan').read_text()}" for one in tasks)


def has_ended(pid: int | str) -> bool:
    """Wait a while for the end of a process."""
    until(lambda: not alive(pid))
    return True


def read_until(running: subprocess.Popen[str], *signs: str) -> str:
    """Read a process's stderr up to the first line with one of the signs.

    The rest is still to be read from its stderr; not by communicate(), which knows nothing of what
    the stream holds already.
    """
    assert running.stderr is not None
    output = ""
    watchdog = threading.Timer(ENOUGH, running.kill)
    watchdog.start()
    try:
        for line in iter(running.stderr.readline, ""):
            output += line
            if any(sign in line for sign in signs):
                return output
    finally:
        watchdog.cancel()
    message = f"none of {signs} in: {output}"
    raise AssertionError(message)


def read_rest(running: subprocess.Popen[str]) -> str:
    """Read the rest of a process's stderr, until its end."""
    assert running.stderr is not None
    watchdog = threading.Timer(ENOUGH, running.kill)
    watchdog.start()
    try:
        output = running.stderr.read()
        running.wait()
    finally:
        watchdog.cancel()
    return output
