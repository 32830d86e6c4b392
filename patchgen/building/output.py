"""Runs a step of the build: output to the log, progress to the user, nothing left behind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, BinaryIO

from patchgen.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_SUPERVISOR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "supervisor.py")
_COUNTS = re.compile(rb"\[(\d+)/(\d+)\] ")  # ninja: steps done and in all


def run(  # noqa: PLR0913  # each is a part of how a program is run
    command: Sequence[str],
    cwd: str,
    environ: Mapping[str, str],
    *,
    log: BinaryIO,
    guard: int,
    count: Callable[[int, int], None],
) -> int:
    """Runs a command to its end and returns its return code.

    Args:
        command: the program and its arguments.
        cwd: where it runs.
        environ: all of its environment.
        log: gets its output, stdout and stderr in the order of their lines.
        guard: a locked descriptor that the supervisor inherits.
        count: told of ninja's counts, the steps done and in all.

    Raises:
        ToolError: it could not be started.
        OSError: the log cannot be written.
    """
    stop, hold = os.pipe()
    try:
        supervised = [sys.executable, "-I", _SUPERVISOR, str(stop), *command]
        try:
            running = subprocess.Popen(
                supervised, cwd=cwd, env=environ, pass_fds=(stop, guard), start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
        except OSError as error:
            raise ToolError(f"{command[0]}: cannot run in {cwd}: {error.strerror}") from error
        output = running.stdout
        assert output is not None  # noqa: S101  # it is a pipe
        try:
            for line in output:
                log.write(line)
                found = _COUNTS.match(line)
                if found:
                    count(int(found[1]), int(found[2]))
            log.flush()
        except BaseException:
            os.close(hold)
            hold = -1
            raise
        finally:
            output.close()
            running.wait()
        return running.returncode
    finally:
        os.close(stop)
        if hold >= 0:
            os.close(hold)
