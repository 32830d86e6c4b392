"""Start of a job's ranks, which gives out what they write and collects their reports."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from typing import TYPE_CHECKING, Any

from patchgen.core.verify.payload import launch, launcher, rank_hook, sitecustomize
from patchgen.errors import InterruptedRun, ToolError, file_errors
from patchgen.extras.lab import lab as labs
from patchgen.extras.train import results
from patchgen.extras.train.configs import rank_configs
from patchgen.extras.train.job import Interrupted, Line
from patchgen.system import files, interpreter, network
from patchgen.system.ports import free_port
from patchgen.system.process import ERR, OUT, NoAnswer, Program, shell_code, stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from threading import Event

    from patchgen.extras.lab.lab import Lab, RemoteLab
    from patchgen.extras.train.job import Job, Result, Setup

    Output = Callable[[Line], None]

_GRACE = 15.0  # seconds that the ranks have to end after Ctrl-C or SIGTERM
_SHOWN = 3  # last lines of a launcher that failed
# As torchrun: the threads of all ranks together are not more than there are cores.
_ONE_THREAD = {"OMP_NUM_THREADS": "1"}
_DEFAULTS = {"PYTHONUNBUFFERED": "1"}  # lines come as they are written
_LOOPBACK = "127.0.0.1"
# A machine's own name need not resolve to an address.
_INTERFACE = "GLOO_SOCKET_IFNAME"
# A Store that lasts over restarts has the addresses of ranks that have ended.
_NEW_STORES = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
# The client library logs by glog, which else leaves files in TMPDIR. Errors are on stderr as well.
_GOOGLE_LOGS, _LOGS = "GOOGLE_LOG_DIR", "logs"


def start_ranks(job: Job, setup: Setup, output: Output, over: Event | None = None) -> Result:
    """Starts the ranks of a job on this machine, and waits for their end.

    Args:
        job: the job.
        setup: its setup.
        output: gets each line that is written, whole.
        over: set where ranks of another host have ended the job.

    Raises:
        ToolError: the ranks could not be started.
        Interrupted: the user has ended them.
        FileError: the temporary directory cannot be written.
    """
    with files.scratch("run") as directory, file_errors():
        last: list[str] = []

        def keep_last(line: Line) -> None:
            if line.rank is None and line.error:
                last[:] = [*last[1 - _SHOWN :], line.text.decode(errors="replace").strip()]
            output(line)

        interrupted = False
        with _running_lab(job, setup) as lab:
            program = [setup.torch.python, *_write_job(job, setup, lab, directory)]
            stop = lab.companion.over if over is None and isinstance(lab, labs.Lab) else over
            try:
                code = _run_launcher(job, program, directory, keep_last, stop)
            except NoAnswer:
                if lab is not None:
                    lab.check()
                code = 0  # that of the job is of the host that has ended it
            except KeyboardInterrupt:
                code, interrupted = InterruptedRun.exit_code, True
        failed = results.read_failures(directory)
        ended = over is not None and over.is_set()
        if failed is None and not (interrupted or ended):
            raise ToolError("\n".join(["the ranks could not be started:", *last]))
        restarted = job.elastic.restarts > 0
        result = results.collect_result(setup, directory, code, failed or {}, restarted=restarted)
        if lab is not None:
            result = dataclasses.replace(result, counters=lab.counters or None)
        if interrupted:
            raise Interrupted(result)
        return result


@contextlib.contextmanager
def _running_lab(job: Job, setup: Setup) -> Iterator[Lab | RemoteLab | None]:
    """Lab of the ranks while the block lasts, where there is to be one."""
    if setup.switch is None or setup.lab is not None:
        yield setup.lab
    else:
        with labs.running(setup.switch, job.workers, job.faults or labs.Faults()) as lab:
            yield lab


def _write_job(job: Job, setup: Setup, lab: Lab | RemoteLab | None, directory: str) -> list[str]:
    """Writes the files of the launcher and the ranks; returns the launcher with its argument."""
    for name in ("program", "site", "graft", "ranks", _LOGS):
        os.mkdir(os.path.join(directory, name))
    # Python imports from the directory of its program first, so that has no other file.
    program = os.path.join(directory, "program", "launcher.py")
    files.copy(launcher.__file__, program)
    site = os.path.join(directory, "site")
    files.copy(sitecustomize.__file__, os.path.join(site, f"{sitecustomize.NAME}.py"))
    for name, path in (("launch", launch.__file__), ("run", rank_hook.__file__)):
        files.copy(path, os.path.join(site, f"{sitecustomize.PREFIX}{name}.py"))
    data: dict[str, Any] = {
        "command": list(job.command),
        **_describe_launch(job),
        "directory": directory,
        "environ": _rank_environment(job, setup, directory),
        "root": os.path.realpath(setup.torch.root),
        "way": setup.way,
        **rank_configs(job, setup, lab),
    }
    if data["files"] or data["template"]:
        data["environ"].pop(rank_hook.CONFIG, None)
    path = os.path.join(directory, "job.json")
    files.write(path, json.dumps(data).encode("ascii"))
    return [program, path]


def _describe_launch(job: Job) -> dict[str, Any]:
    """Describes the ranks of this host, and where torch's launcher meets those of others."""
    hosts = job.hosts
    if hosts is None:
        place = {"nodes": 1, "node": 0, "offset": 0, "world": job.workers}
        own, first, port = _LOOPBACK, _LOOPBACK, free_port()
    else:
        place = {"nodes": len(hosts.all), "node": hosts.node, "offset": hosts.offset,
                 "world": hosts.size}  # fmt: skip
        own, first, port = hosts.here.address, hosts.all[0].address, hosts.port
    elastic = {"backend": job.elastic.backend, "restarts": job.elastic.restarts}
    return {**place, **elastic, "workers": job.local, "address": own, "first": first, "port": port}


def _rank_environment(job: Job, setup: Setup, directory: str) -> dict[str, str]:
    """Environment of the ranks."""
    own = {**_DEFAULTS, **(_ONE_THREAD if job.local > 1 else {})}
    address = _LOOPBACK if job.hosts is None else job.hosts.here.address
    interface = network.find_interface(address)
    if interface:
        own[_INTERFACE] = interface
    if job.elastic.restarts:
        own.update(_NEW_STORES)
    if _GOOGLE_LOGS not in job.environ:
        own["GLOG_log_dir"] = os.path.join(directory, _LOGS)
    graft = os.path.join(directory, "graft")
    environ = {**setup.access.extend({**own, **job.environ}, graft)}
    environ["PYTHONPATH"] = interpreter.search_path(os.path.join(directory, "site"), environ)
    environ[rank_hook.JOB] = os.path.join(directory, "job.json")
    if job.require:
        environ["SWITCHML_REQUIRE"] = "1"
    return environ


def _run_launcher(
    job: Job, command: Sequence[str], directory: str, output: Output, stop: Event | None
) -> int:
    places = {
        os.path.join(directory, f"{rank}.{name}"): (rank, name)
        for rank in range(job.workers)
        for name in (OUT, ERR)
    }

    def give_line(source: str, line: bytes) -> None:
        rank, name = places.get(source, (None, source))
        output(Line(rank, name == ERR, line))

    program = Program(command, job.cwd, job.environ, supervised=True, grace=_GRACE)
    return shell_code(stream(program, give_line, limit=None, stop=stop, named=[*places]))
