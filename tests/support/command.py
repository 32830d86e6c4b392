"""switchml-patch in a process forked from a server that has imported it, to save its start.

Each process of pytest has a server. Variables that an interpreter reads when it starts are the
server's. Where a test has set such variables, and in threads, the command gets a new interpreter.

click's CliRunner, which unit tests use, runs a command in the process of pytest. That is not enough
where the command changes directories and signals, starts programs, or is killed.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

from support.forking import Server
from support.waiting import ENOUGH

START = (sys.executable, "-m", "patchgen")

_AT_START = ("PYTHON", "LC_", "LANG", "LOCPATH", "LD_", "ASAN_", "MALLOC_")
_ENVIRON = dict(os.environ)  # of the session: a test may have its own
_BASE = tempfile.gettempdir()  # likewise
_SERVER = Path(__file__).parents[1] / "payload" / "serve_commands.py"


def run(
    *arguments: str | Path,
    cwd: Path | str | None = None,
    env: Mapping[str, str] | None = None,
    path: Path | None = None,
    errors: str | None = None,
    limit: float = ENOUGH,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, in the directory and the environment of this process by default.

    `path` is the PYTHONPATH of the programs that the command starts. Only a hang takes as long as
    the limit, in seconds.
    """
    directory, environ = str(cwd or Path.cwd()), dict(os.environ if env is None else env)
    given = [os.fspath(argument) for argument in arguments]
    early = not _early(environ) <= _early(_ENVIRON)
    if path is not None:
        environ["PYTHONPATH"] = str(path)
    if early or threading.current_thread() != threading.main_thread():
        return subprocess.run(
            [*START, *given], cwd=directory, env=environ, stdin=subprocess.DEVNULL, text=True,
            errors=errors, capture_output=True, check=False, timeout=limit,
        )  # fmt: skip
    server, scratch = _server()
    places = [scratch / "out", scratch / "err"]
    rank = server.start(
        arguments=given, directory=directory, environ=environ, output=places[0], errors=places[1]
    )
    try:
        code = rank.wait(limit)
    except BaseException:
        rank.kill()
        raise
    out, err = (place.read_text(errors=errors) for place in places)
    return subprocess.CompletedProcess([*START, *given], code, out, err)


def _early(environ: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset(one for one in environ.items() if one[0].startswith(_AT_START))


@functools.cache
def _server() -> tuple[Server, Path]:
    scratch = Path(tempfile.mkdtemp(prefix="switchml-commands-", dir=_BASE))
    server = Server([sys.executable, _SERVER], _ENVIRON, scratch / "log")

    def close() -> None:
        server.close()
        shutil.rmtree(scratch, ignore_errors=True)

    atexit.register(close)
    return server, scratch
