"""The only place that runs other programs."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING

from patchgen.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from threading import Event

LIMIT = 60.0
"""Seconds for a program that is only asked something: many times what any takes."""

_TAIL = 20  # lines of a failed program's stderr that are shown
_POLL = 0.2  # seconds


class NoAnswer(ToolError):  # noqa: N818  # that is what there is
    """A program took too long, or was ended before."""


def without_git(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without GIT_*: inside a git hook these point at another repository."""
    return {name: value for name, value in environ.items() if not name.startswith("GIT_")}


def run(  # noqa: PLR0913  # each is a part of how a program is run
    argv: Sequence[str | os.PathLike[str]],
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    limit: float | None = None,
    stop: Event | None = None,
) -> bytes:
    """Runs a program, never through a shell, and returns its standard output.

    Args:
        argv: the program and its arguments.
        cwd: where it runs; without, where we are.
        env: all of its environment; without, ours.
        stdin: what it reads; without, nothing.
        limit: seconds; after that it is ended, with all that it has started.
        stop: ends it likewise once it is set.

    Raises:
        ToolError: the program is missing, or its return code is not 0.
        NoAnswer: it was ended.
    """
    command = [os.fspath(argument) for argument in argv]
    environ = os.environ if env is None else env
    if os.path.basename(command[0]) == "git":
        environ = without_git(environ)
    try:
        if limit is None:
            done = subprocess.run(
                command, cwd=cwd, env=environ, input=stdin or b"", capture_output=True, check=False
            )
        else:
            done = _within(limit, stop, command, cwd=cwd, env=environ, stdin=stdin or b"")
    except OSError as error:
        if cwd is not None and not os.path.isdir(cwd):
            raise ToolError(
                f"{command[0]}: cannot run in {os.fspath(cwd)}: no directory"
            ) from error
        raise ToolError(f"{command[0]}: {error.strerror}; is it installed and on PATH?") from error
    if done.returncode != 0:
        tail = "\n".join(done.stderr.decode(errors="replace").splitlines()[-_TAIL:])
        raise ToolError(f"{' '.join(command)}: return code {done.returncode}\n{tail}".rstrip())
    return done.stdout


def _within(  # noqa: PLR0913  # as subprocess.run has them
    limit: float,
    stop: Event | None,
    command: Sequence[str],
    *,
    cwd: str | os.PathLike[str] | None,
    env: Mapping[str, str],
    stdin: bytes,
) -> subprocess.CompletedProcess[bytes]:
    deadline = time.monotonic() + limit
    pipe = subprocess.PIPE
    with (
        subprocess.Popen(
            command, cwd=cwd, env=env, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        ) as running,
        contextlib.ExitStack() as unless_done,
    ):
        unless_done.callback(_kill, running)
        given: bytes | None = stdin
        while time.monotonic() < deadline and not (stop is not None and stop.is_set()):
            with contextlib.suppress(subprocess.TimeoutExpired):
                out, err = running.communicate(given, timeout=_POLL)
                unless_done.pop_all()
                return subprocess.CompletedProcess(command, running.returncode, out, err)
            given = None  # it is on its way
        raise NoAnswer(f"{' '.join(command)}: no answer in {limit:g} s")


def _kill(running: subprocess.Popen[bytes]) -> None:
    """Ends a program with its session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGKILL)
