"""Starts a program that ends, with all that it has started, when the block or this process ends."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from patchgen.errors import ToolError
from patchgen.payload import supervisor

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_PROGRAM = os.path.abspath(supervisor.__file__)


@contextlib.contextmanager
def started(  # noqa: PLR0913  # each is a part of how a program is run
    command: Sequence[str],
    cwd: str,
    environ: Mapping[str, str],
    *,
    passed: Sequence[int] = (),
    stdout: int | None = None,
    stderr: int | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a command, with no input, in a session of its own.

    At the end of the block it is waited for; where the block raises, all of it is killed before.

    Args:
        command: the program and its arguments.
        cwd: where it runs.
        environ: all of its environment.
        passed: descriptors that the supervisor inherits.
        stdout: as in subprocess.
        stderr: likewise.

    Raises:
        ToolError: it could not be started.
    """
    stop, hold = os.pipe()
    try:
        try:
            running = subprocess.Popen(
                [sys.executable, "-I", _PROGRAM, str(stop), *command],
                cwd=cwd, env=environ, pass_fds=(stop, *passed), start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
            )  # fmt: skip
        except OSError as error:
            raise ToolError(f"{command[0]}: cannot run in {cwd}: {error.strerror}") from error
        try:
            yield running
        except BaseException:
            os.close(hold)
            hold = -1
            raise
        finally:
            for pipe in (running.stdout, running.stderr):
                if pipe is not None:
                    pipe.close()
            running.wait()
    finally:
        os.close(stop)
        if hold >= 0:
            os.close(hold)
