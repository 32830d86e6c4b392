"""The objects: PyTorch's setup.py, run in the environment of the build."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, BinaryIO

from patchgen.errors import FileError, ToolError
from patchgen.system import files, process
from patchgen.system.process import Program
from patchgen.wheel import diagnosis, variables
from patchgen.wheel.forecast import Forecast
from patchgen.wheel.journal import digest
from patchgen.wheel.values import Configured, Objects

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from patchgen.source import Source
    from patchgen.wheel.place import Place
    from patchgen.wheel.request import Request
    from patchgen.wheel.values import Environment, Patched

LOG = "build.log"
# Where CMake installs to: files of what was on with other variables would come into the wheel.
_INSTALLED = tuple(
    f"torch/{name}" for name in ("bin", "cmake", "include", "lib", "lib64", "share", "test")
)
_VERSION = "torch/version.py"  # made by a step of the build that does not know when it is outdated
_STAGES = {"build": "compile", "bdist_wheel": "wheel"}
_NO_SPACE = ("No space left on device", "Disk quota exceeded")


@dataclass(frozen=True)
class _Inputs:
    """Digests of all that the objects are made from, and of what decides which of them stay."""

    whole: str
    configured: Configured


def _inputs(
    request: Request, source: Source, environment: Environment, patched: Patched
) -> _Inputs:
    toolchain = {
        "commit": source.pin.commit,
        "toolchain": environment.toolchain.identity,
        "lock": environment.lock,
        "path": request.source,
    }
    held = {
        name: value
        for name, value in environment.variables.items()
        if name not in variables.NEUTRAL
    }
    settings = {"variables": held, "version": request.version}
    return _Inputs(
        digest({**toolchain, **settings, "patch": asdict(patched)}),
        Configured(digest(toolchain), digest(held), request.version),
    )


def look(
    place: Place, source: Source, environment: Environment, patched: Patched
) -> Objects | None:
    """The objects, where these inputs were compiled to the end."""
    inputs = _inputs(place.request, source, environment, patched)
    there = os.path.isdir(os.path.join(place.request.source, "build"))
    return place.journal.get(Objects, inputs.whole) if there else None


def make(place: Place, source: Source, environment: Environment, patched: Patched) -> Objects:
    """Runs setup.py build, which goes on with the objects that are there.

    Raises:
        ToolError: it failed; the message has the first error of the log, and what it means.
        FileError: the disk is full.
    """
    inputs = _inputs(place.request, source, environment, patched)
    place.journal.drop(Objects)
    _prepare(place, inputs.configured)
    build = os.path.join(place.request.source, "build")
    followed = Forecast(build, place.request.workers)
    setup_py(place, source, environment, ["build"], followed.read)
    objects = Objects(inputs.whole)
    place.journal.put(objects, inputs.whole)
    return objects


def _prepare(place: Place, now: Configured) -> None:
    """Makes the objects of an earlier run serve these inputs, or takes them away.

    PyTorch's setup.py configures once, and then never looks at its variables again.
    """
    source = place.request.source
    build = os.path.join(source, "build")
    before = place.journal.get(Configured)
    if before is None or before.toolchain != now.toolchain:
        _clean(source, ["."])
    elif before.variables != now.variables:
        _clean(source, [*_INSTALLED, _VERSION])
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(build, "CMakeCache.txt"))
    elif before.version != now.version:
        _clean(source, [_VERSION])
    place.journal.put(now, digest(asdict(now)))
    for name in os.listdir(build) if os.path.isdir(build) else []:
        if name.startswith(("lib.", "bdist.")):  # copies: what was removed since stays in them
            shutil.rmtree(os.path.join(build, name))


def _clean(source: str, paths: Sequence[str]) -> None:
    """Removes what git ignores there, which is what a build writes."""
    process.run(["git", "clean", "-q", "-f", "-d", "-X", "--", *paths], cwd=source, limit=None)


def setup_py(
    place: Place,
    source: Source,
    environment: Environment,
    arguments: Sequence[str],
    follow: Callable[[bytes], None] | None = None,
) -> None:
    """Runs setup.py to its end.

    Args:
        place: where.
        source: for the time of its commit.
        environment: the interpreter and its environment.
        arguments: of setup.py: a command of `_STAGES`, and its own.
        follow: gets each line of its output.

    Raises:
        ToolError: it failed; the message has the first error of the log, and what it means.
        FileError: the disk is full.
    """
    request = place.request
    environ = {
        **environment.environ,
        "MAX_JOBS": str(request.workers),
        "PYTORCH_BUILD_NUMBER": "1",
        "PYTORCH_BUILD_VERSION": request.version,
        "SOURCE_DATE_EPOCH": str(source.epoch),
    }
    stage, command = _STAGES[arguments[0]], [environment.python, "setup.py", *arguments]
    path = os.path.join(request.logs, LOG)
    # A compiler that is killed leaves its temporary files behind.
    with files.scratch("build") as temporary, open(path, "a+b") as log:
        environ["TMPDIR"] = temporary
        _begin(log, f"==> {stage}, {time.strftime('%Y-%m-%d %H:%M:%S')}: {shlex.join(command)}\n")
        begun = log.tell()

        def written(_: str, line: bytes) -> None:
            log.write(line)
            log.flush()  # before the next is read, so that a kill loses none
            if follow is not None:
                follow(line)

        program = Program(command, request.source, environ, passed=(place.guard,), supervised=True)
        code = process.stream(program, written, limit=None, merged=True)
    if code != 0:
        raise _failure(stage, path, begun, code)


def _begin(log: BinaryIO, header: str) -> None:
    """Another attempt in the log, on a line of its own: the one before may have been killed."""
    end = log.seek(0, os.SEEK_END)
    if end:
        log.seek(end - 1)
        if log.read(1) != b"\n":
            header = f"\n{header}"
    log.write(header.encode())
    log.flush()


def _failure(stage: str, path: str, begun: int, code: int) -> ToolError | FileError:
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
