"""Runs PyTorch's setup.py in the environment of the build, and logs its output."""

from __future__ import annotations

import logging
import os
import re
import shlex
import time
from collections.abc import Sequence
from typing import BinaryIO

from patchgen.core.wheel import caches, diagnosis
from patchgen.core.wheel.sandbox import HOST, LOOPBACK, Sandbox
from patchgen.core.wheel.values import Stage, WheelInputs
from patchgen.core.wheel.workspace import Workspace
from patchgen.errors import FileError, ToolError
from patchgen.system import files, process
from patchgen.system.process import Program
from patchgen.system.progress import log_count

_LOGGER = logging.getLogger(__name__)
LOG = "build.log"
_COUNT = re.compile(rb"\[(\d+)/(\d+)\] (?!Re-running CMake)")  # ninja: steps done and in all
_STAGES = {"build": Stage.COMPILE, "bdist_wheel": Stage.WHEEL}
_NO_SPACE = ("No space left on device", "Disk quota exceeded")


def run_setup(workspace: Workspace, inputs: WheelInputs, arguments: Sequence[str]) -> str:
    """Run setup.py without a network, if possible, and log ninja's progress.

    `arguments` are a command of `_STAGES` and its own arguments. Files get the time of the source's
    commit.

    Returns:
        Network access of the run: LOOPBACK or HOST.

    Raises:
        ToolError: it failed; the message has the first error of the log and its usual meaning.
        FileError: the disk is full.
    """
    request, sandbox, env = inputs.request, inputs.sandbox, inputs.env
    online = not sandbox.isolated or request.remote_cache is not None
    environ = {
        **env.environ,
        **caches.list_variables(env.environ, sandbox),
        "MAX_JOBS": str(request.workers),
        "PYTORCH_BUILD_NUMBER": "1",
        "PYTORCH_BUILD_VERSION": request.version,
        "SOURCE_DATE_EPOCH": str(inputs.source.epoch),
    }
    passed = () if workspace.guard is None else (workspace.guard,)
    stage, command = _STAGES[arguments[0]], [env.python, "setup.py", *arguments]
    path = os.path.join(request.logs, LOG)
    # A killed compiler leaves temporary files behind.
    with files.scratch("build") as temporary, open(path, "a+b") as log:
        environ["TMPDIR"] = temporary
        _begin_attempt(
            log, f"==> {stage.value}, {time.strftime('%Y-%m-%d %H:%M:%S')}: {shlex.join(command)}\n"
        )
        begun = log.tell()

        def write_line(_: str, line: bytes) -> None:
            log.write(line)
            log.flush()  # so that a kill loses no line
            count = _COUNT.match(line)
            if count is not None:
                log_count(_LOGGER, int(count[1]), int(count[2]))

        run = command if online else sandbox.offline(command)
        source_dir = sandbox.reveal(request.source)
        program = Program(run, source_dir, environ, passed=passed, supervised=True, merged=True)
        code = process.stream(program, write_line, limit=None)
    if code != 0:
        raise _describe_failure(stage, path, begun, code, sandbox, online=online)
    return HOST if online else LOOPBACK


def _begin_attempt(log: BinaryIO, header: str) -> None:
    """Write a header to a new line, since a killed attempt may have left one unfinished."""
    end = log.seek(0, os.SEEK_END)
    if end:
        log.seek(end - 1)
        if log.read(1) != b"\n":
            header = f"\n{header}"
    log.write(header.encode())
    log.flush()


def _describe_failure(  # noqa: PLR0913  # all are independent
    stage: Stage, path: str, begun: int, code: int, sandbox: Sandbox, *, online: bool
) -> ToolError | FileError:
    """Describe a failed run of setup.py, whose lines in the log begin at a byte."""
    with open(path, "rb") as log:
        before = log.read(begun).count(b"\n")
        text = log.read().decode(errors="replace")
    output = text.split("\n")  # lines as editors count them
    found = diagnosis.diagnose(output) or diagnosis.Diagnosis(
        f"setup.py ended with return code {process.shell_code(code)}", len(output), None
    )
    lines = [f"{stage.value}: {found.error}", f"(line {before + found.line} of {path})"]
    if sandbox.isolated and sandbox.inside in found.error:
        lines.append(f"there {sandbox.inside} is {sandbox.work}")
    call = "" if online else diagnosis.find_network_call(output, found)
    if call:
        lines += [
            f"a build reaches no network: {call}",
            "turn off what asks for it with --set NAME=VALUE, or add its files to the source",
        ]
    elif found.meaning:
        lines.append(f"this usually means: {found.meaning}")
    full = any(sign in found.error for sign in _NO_SPACE)
    return (FileError if full else ToolError)("\n".join(lines))
