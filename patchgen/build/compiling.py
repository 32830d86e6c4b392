"""Runs PyTorch's setup.py in the environment of the build."""

from __future__ import annotations

import contextlib
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
# Where CMake installs to: files of what was on with other variables would come into the wheel.
_INSTALLED = tuple(
    f"torch/{name}" for name in ("bin", "cmake", "include", "lib", "lib64", "share", "test")
)
_VERSION = "torch/version.py"  # made by a step of the build that does not know when it is outdated
_NO_SPACE = ("No space left on device", "Disk quota exceeded")


def prepare(context: Context, inputs: Mapping[str, Any]) -> None:
    """Makes the objects of an earlier run serve these inputs, or takes them away.

    PyTorch's setup.py configures once, and then never looks at its variables again.
    """
    parts = {
        "toolchain": {key: inputs[key] for key in ("commit", "toolchain", "lock", "path")},
        "variables": inputs["variables"],
        "version": inputs["version"],
    }
    now = Done(digest(parts), {name: digest({name: value}) for name, value in parts.items()})
    before = context.record.get(_CONFIGURED)
    source = context.request.source
    build = os.path.join(source, "build")
    if before is None or before.made.get("toolchain") != now.made["toolchain"]:
        _clean(source, ["."])
    elif before.made.get("variables") != now.made["variables"]:
        _clean(source, [*_INSTALLED, _VERSION])
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(build, "CMakeCache.txt"))
    elif before.made.get("version") != now.made["version"]:
        _clean(source, [_VERSION])
    context.record.put(_CONFIGURED, now)
    for name in os.listdir(build) if os.path.isdir(build) else []:
        if name.startswith(("lib.", "bdist.")):  # copies: what was removed since stays in them
            shutil.rmtree(os.path.join(build, name))


def _clean(source: str, paths: Sequence[str]) -> None:
    """Removes what git ignores there, which is what a build writes."""
    process.run(["git", "clean", "-q", "-f", "-d", "-X", "--", *paths], cwd=source, limit=None)


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
