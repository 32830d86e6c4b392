"""Runs PyTorch's setup.py in the environment of the build."""

from __future__ import annotations

import os
import re
import shutil
from typing import TYPE_CHECKING, Any

from patchgen.build import diagnosis
from patchgen.build.journal import Done, digest
from patchgen.errors import FileError, ToolError
from patchgen.system import process
from patchgen.system.process import Program

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchgen.build.context import Context

LOG = "build.log"
_CONFIGURED = "configured"
_COUNTS = re.compile(rb"\[(\d+)/(\d+)\] ")  # ninja: steps done and in all
_NO_SPACE = ("No space left on device", "Disk quota exceeded")


def prepare(context: Context, inputs: Mapping[str, Any]) -> None:
    """Makes the objects of an earlier run serve these inputs, or takes them away.

    PyTorch's setup.py configures once, and then never looks at its variables again.
    """
    toolchain = {key: inputs[key] for key in ("commit", "toolchain", "lock", "path")}
    settings = {key: inputs[key] for key in ("variables", "version")}
    before = context.record.get(_CONFIGURED)
    now = Done(digest({**toolchain, **settings}), {"toolchain": digest(toolchain)})
    source = context.request.source
    build = os.path.join(source, "build")
    if before is None or before.made != now.made:
        _clean(source, keep_objects=False)
    elif before.inputs != now.inputs:
        _clean(source, keep_objects=True)
    context.record.put(_CONFIGURED, now)
    for name in os.listdir(build) if os.path.isdir(build) else []:
        if name.startswith(("lib.", "bdist.")):  # copies: what was removed since stays in them
            shutil.rmtree(os.path.join(build, name))


def _clean(source: str, *, keep_objects: bool) -> None:
    """Removes what git ignores, which is what a build writes; and at least the configuration."""
    kept = [":!build"] if keep_objects else []
    process.run(["git", "clean", "-q", "-f", "-d", "-X", "--", ".", *kept], cwd=source, limit=None)
    if keep_objects and os.path.exists(cache := os.path.join(source, "build", "CMakeCache.txt")):
        os.unlink(cache)


def setup_py(context: Context, stage: str, arguments: Sequence[str]) -> None:
    """Runs setup.py to its end.

    Raises:
        ToolError: it failed; the message has the first error of the log, and what it means.
        FileError: the disk is full.
    """
    request = context.request
    made = context.made["env"]
    environ = {
        **made["environ"],
        "MAX_JOBS": str(request.workers),
        "PYTORCH_BUILD_NUMBER": "1",
        "PYTORCH_BUILD_VERSION": request.version,
        "SOURCE_DATE_EPOCH": str(context.made["source"]["epoch"]),
    }
    command = [made["python"], "setup.py", *arguments]
    path = os.path.join(request.logs, LOG)
    with open(path, "ab", buffering=0) as log:
        log.write(f"==> {stage}: {' '.join(command)}\n".encode())
        begun = log.tell()

        def written(_: str, line: bytes) -> None:
            log.write(line)
            found = _COUNTS.match(line)
            if found:
                context.count(int(found[1]), int(found[2]))

        program = Program(
            command, request.source, environ, passed=(context.guard,), supervised=True
        )
        code = process.stream(program, written, limit=None, merged=True)
    if code != 0:
        raise _failure(stage, path, begun, code)


def _failure(stage: str, path: str, begun: int, code: int) -> ToolError | FileError:
    with open(path, "rb") as log:
        before = log.read(begun).count(b"\n")
        text = log.read().decode(errors="replace")
    found = diagnosis.diagnose(text.splitlines())
    if found is None:
        return ToolError(
            f"{stage}: setup.py ended with return code {process.shell_code(code)}; see {path}"
        )
    lines = [f"{stage}: {found.error}", f"(line {before + found.line} of {path})"]
    if found.meaning:
        lines.append(f"this usually means: {found.meaning}")
    full = any(sign in found.error for sign in _NO_SPACE)
    return (FileError if full else ToolError)("\n".join(lines))
