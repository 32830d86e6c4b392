"""The only place that runs other programs."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from patchgen.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TAIL = 20  # lines of a failed program's stderr that are shown


def without_git(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without GIT_*: inside a git hook these point at another repository."""
    return {name: value for name, value in environ.items() if not name.startswith("GIT_")}


def run(
    argv: Sequence[str | os.PathLike[str]],
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
) -> bytes:
    """Runs a program, never through a shell, and returns its standard output.

    Raises:
        ToolError: the program is missing, or its return code is not 0.
    """
    command = [os.fspath(argument) for argument in argv]
    environ = os.environ if env is None else env
    if os.path.basename(command[0]) == "git":
        environ = without_git(environ)
    try:
        done = subprocess.run(
            command, cwd=cwd, env=environ, input=stdin or b"", capture_output=True, check=False
        )
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
