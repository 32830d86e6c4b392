"""Runs a step of the build: output to the log, progress to the user, nothing left behind."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING, BinaryIO

from patchgen.system import supervising

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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
    with supervising.started(
        command, cwd, environ, passed=[guard], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as running:
        assert running.stdout is not None  # noqa: S101  # it is a pipe
        for line in running.stdout:
            log.write(line)
            found = _COUNTS.match(line)
            if found:
                count(int(found[1]), int(found[2]))
        log.flush()
    return running.returncode
