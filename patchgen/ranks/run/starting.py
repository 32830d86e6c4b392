"""Starts the ranks of a job, gives out what they write, and collects what they say."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING, Any

from patchgen.errors import ToolError, file_errors
from patchgen.payload import launcher, rank_hook, sitecustomize
from patchgen.ranks.run import configs, results, streams, ways
from patchgen.ranks.run.streams import Stream
from patchgen.system import files, pythons, supervising
from patchgen.system.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchgen.ranks.run.job import Job, Line, Result, Setup
    from patchgen.ranks.run.streams import Output

_GRACE = 15.0  # seconds that the ranks have to end after Ctrl-C or SIGTERM
_SHOWN = 3  # last lines of a launcher that failed
# As torchrun: the threads of all ranks together are not more than there are cores.
_ONE_THREAD = {"OMP_NUM_THREADS": "1"}
# Lines come as they are written, and a machine's own name need not resolve to an address.
_DEFAULTS = {"PYTHONUNBUFFERED": "1", "GLOO_SOCKET_IFNAME": "lo"}


def start(job: Job, setup: Setup, output: Output) -> Result:
    """Runs a job to its end.

    Args:
        job: what to run.
        setup: how SwitchML comes into it.
        output: gets each line that is written, whole.

    Raises:
        OptionsError: a configuration cannot be used.
        ToolError: the ranks could not be started.
        FileError: the temporary directory cannot be written.
    """
    with files.scratch("run") as directory, file_errors():
        program = _prepared(job, setup, directory)
        last: list[str] = []

        def seen(line: Line) -> None:
            if line.rank is None and line.error:
                last[:] = [*last[1 - _SHOWN :], line.text.decode(errors="replace").strip()]
            output(line)

        code = _supervised(job, [setup.torch.python, *program], directory, seen)
        failed = results.failed(directory)
        if failed is None:
            raise ToolError("\n".join(["the ranks could not be started:", *last]))
        return results.collect(setup, directory, code, failed)


def _prepared(job: Job, setup: Setup, directory: str) -> list[str]:
    """Writes what the launcher and the ranks read; returns the launcher with its argument."""
    for name in ("program", "site", "graft", "ranks"):
        os.mkdir(os.path.join(directory, name))
    # Python imports from the directory of its program first, so that has no other file.
    program = os.path.join(directory, "program", "launcher.py")
    shutil.copyfile(launcher.__file__, program)
    site = os.path.join(directory, "site")
    shutil.copyfile(sitecustomize.__file__, os.path.join(site, f"{sitecustomize.NAME}.py"))
    shutil.copyfile(rank_hook.__file__, os.path.join(site, f"{sitecustomize.PREFIX}run.py"))
    data: dict[str, Any] = {
        "command": list(job.command),
        "workers": job.workers,
        "port": free_port(),
        "directory": directory,
        "environ": _environ(job, setup, directory),
        "root": os.path.realpath(setup.torch.root),
        "way": setup.way,
        **configs.of(job, setup),
    }
    if data["files"] or data["template"]:
        data["environ"].pop(rank_hook.CONFIG, None)
    path = os.path.join(directory, "job.json")
    with open(path, "w", encoding="ascii") as file:
        json.dump(data, file)
    return [program, path]


def _environ(job: Job, setup: Setup, directory: str) -> dict[str, str]:
    """That of the ranks."""
    own = {**_DEFAULTS, **(_ONE_THREAD if job.workers > 1 else {})}
    graft = os.path.join(directory, "graft")
    environ = {**own, **ways.environment({**job.environ, **setup.environ}, setup, graft)}
    environ["PYTHONPATH"] = pythons.search_path(os.path.join(directory, "site"), environ)
    environ[rank_hook.JOB] = os.path.join(directory, "job.json")
    if job.require:
        environ["SWITCHML_REQUIRE"] = "1"
    return environ


def _supervised(job: Job, command: Sequence[str], directory: str, output: Output) -> int:
    pipe = subprocess.PIPE
    with (
        streams.of_ranks(directory, job.workers) as ranks,
        supervising.started(command, job.cwd, job.environ, stdout=pipe, stderr=pipe) as running,
    ):
        assert running.stdout is not None  # noqa: S101  # it is a pipe
        assert running.stderr is not None  # noqa: S101
        others = [
            Stream(running.stdout.fileno(), None, error=False),
            Stream(running.stderr.fileno(), None, error=True),
        ]
        try:
            streams.pump(ranks, others, output)
        except BaseException as error:
            _tell(directory, error)
            with contextlib.suppress(OSError):  # the output may be what is broken
                streams.pump(ranks, others, output, _GRACE)
            raise
    return running.returncode


def _tell(directory: str, error: BaseException) -> None:
    """Tells the launcher that the ranks are to end."""
    number = signal.SIGINT if isinstance(error, KeyboardInterrupt) else signal.SIGTERM
    with contextlib.suppress(OSError, ValueError):
        with open(os.path.join(directory, "launcher"), encoding="ascii") as file:
            pid = int(file.read())
        os.kill(pid, number)
