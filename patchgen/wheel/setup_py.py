"""PyTorch's setup.py, run in the environment of the build, and its log."""

from __future__ import annotations

import os
import shlex
import time
from typing import TYPE_CHECKING, BinaryIO

from patchgen.errors import FileError, ToolError
from patchgen.system import files, process
from patchgen.system.process import Program
from patchgen.wheel import diagnosis

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from patchgen.wheel.session import Session

LOG = "build.log"
_STAGES = {"build": "compile", "bdist_wheel": "wheel"}
_NO_SPACE = ("No space left on device", "Disk quota exceeded")


def run_setup(
    session: Session,
    arguments: Sequence[str],
    follow: Callable[[bytes], None] | None = None,
) -> None:
    """Runs setup.py to its end.

    Args:
        session: the build, with its source and its environment.
        arguments: a command of `_STAGES`, and its own arguments.
        follow: gets each line of the output.

    Raises:
        ToolError: it failed; the message has the first error of the log, and what it means.
        FileError: the disk is full.
    """
    request = session.request
    environ = {
        **session.env.environ,
        "MAX_JOBS": str(request.workers),
        "PYTORCH_BUILD_NUMBER": "1",
        "PYTORCH_BUILD_VERSION": request.version,
        "SOURCE_DATE_EPOCH": str(session.source.epoch),
    }
    passed = () if session.guard is None else (session.guard,)
    stage, command = _STAGES[arguments[0]], [session.env.python, "setup.py", *arguments]
    path = os.path.join(request.logs, LOG)
    # A compiler that is killed leaves its temporary files behind.
    with files.scratch("build") as temporary, open(path, "a+b") as log:
        environ["TMPDIR"] = temporary
        _begin_attempt(
            log, f"==> {stage}, {time.strftime('%Y-%m-%d %H:%M:%S')}: {shlex.join(command)}\n"
        )
        begun = log.tell()

        def write_line(_: str, line: bytes) -> None:
            log.write(line)
            log.flush()  # before the next is read, so that a kill loses none
            if follow is not None:
                follow(line)

        program = Program(command, request.source, environ, passed=passed, supervised=True)
        code = process.stream(program, write_line, limit=None, merged=True)
    if code != 0:
        raise _describe_failure(stage, path, begun, code)


def _begin_attempt(log: BinaryIO, header: str) -> None:
    """Writes a header on a line of its own: the attempt before may have been killed."""
    end = log.seek(0, os.SEEK_END)
    if end:
        log.seek(end - 1)
        if log.read(1) != b"\n":
            header = f"\n{header}"
    log.write(header.encode())
    log.flush()


def _describe_failure(stage: str, path: str, begun: int, code: int) -> ToolError | FileError:
    with open(path, "rb") as log:
        before = log.read(begun).count(b"\n")
        text = log.read().decode(errors="replace")
    found = diagnosis.diagnose(text.split("\n"))  # the lines that an editor counts
    if found is None:
        return ToolError(
            f"{stage}: setup.py ended with return code {process.shell_code(code)}; see {path}"
        )
    lines = [f"{stage}: {found.error}", f"(line {before + found.line} of {path})"]
    if found.meaning:
        lines.append(f"this usually means: {found.meaning}")
    full = any(sign in found.error for sign in _NO_SPACE)
    return (FileError if full else ToolError)("\n".join(lines))
