"""Start of a job's ranks with SwitchML in their torch, and collection of their reports."""

from __future__ import annotations

import json
import os
import shutil
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from patchgen.core.library import config
from patchgen.core.torch import PLUGIN
from patchgen.core.verify.start import ALONE, list_failed, number_ranks
from patchgen.errors import InterruptedRun, file_errors
from patchgen.extras.install.payload import sitecustomize
from patchgen.extras.lab import lab as labs
from patchgen.extras.lab.lab import Lab
from patchgen.extras.lab.simulator import compose_simulated
from patchgen.extras.train.job import Job
from patchgen.extras.train.payload import rank_hook
from patchgen.extras.train.results import JOB, Interrupted, Result, collect_result
from patchgen.extras.train.setup import Setup
from patchgen.extras.train.variants import STOCK
from patchgen.system import files, interpreter
from patchgen.system.ports import free_port
from patchgen.system.process import ERR, Program, shell_code, side_by_side

Output = Callable[["Line"], None]

_GRACE = 15.0  # seconds for the ranks to end after Ctrl-C, SIGTERM or the failure of a rank
_ONE_THREAD = {"OMP_NUM_THREADS": "1"}  # as torchrun, so that ranks do not compete for cores
_DEFAULTS = {"PYTHONUNBUFFERED": "1", **ALONE}
_RUN, _ATTEMPT = "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"  # as torchrun
# The client library logs through glog, which would leave files in TMPDIR. Errors go to stderr too.
_GOOGLE_LOGS, _LOGS = "GOOGLE_LOG_DIR", "logs"


@dataclass(frozen=True)
class Line:
    """Line of output of a rank."""

    rank: int | None
    """Number of the rank; None if the command starts its ranks itself."""
    error: bool
    """True for stderr, False for stdout."""
    text: bytes


def run_job(job: Job, setup: Setup, output: Output) -> Result:
    """Start the ranks of a job on this machine, and wait until they end.

    `output` is called with each whole line that a rank writes.

    Raises:
        ToolError: the ranks could not be started, or the software switch ended before them.
        Interrupted: the user interrupted the ranks.
        FileError: the temporary directory cannot be written.
    """
    with files.scratch("run") as directory, file_errors():
        failed, code = dict[int, int](), InterruptedRun.exit_code
        interrupted = False
        running: AbstractContextManager[Lab | None] = nullcontext()
        if setup.switch is not None:
            running = labs.running(setup.switch, job.workers, job.faults or labs.Faults())
        with running as lab:
            environ = _prepare_ranks(job, setup, lab, directory)
            try:
                failed = _start_again(job, environ, output, lab)
                code = next((shell_code(one) for one in failed.values()), 0)
            except KeyboardInterrupt:
                interrupted = True
            if lab is not None:
                lab.check()
        counters = (lab.counters or None) if lab is not None else None
        result = collect_result(
            job, setup, directory, code=code, failed=failed, counters=counters
        )  # fmt: skip
        if interrupted:
            raise Interrupted(result)
        return result


def run_command(job: Job, setup: Setup, command: Sequence[str], directory: str) -> Sequence[str]:
    """Run a command on the ranks of a job, whose Python path begins with `directory`.

    Returns:
        The last lines that the ranks wrote to stderr.

    Raises:
        As `run_job`.
    """
    last = deque[str](maxlen=3)

    def keep(line: Line) -> None:
        if line.error:
            last.append(line.text.decode(errors="replace").strip())

    path = interpreter.search_path(directory, setup.environ)
    environ = {**setup.environ, "PYTHONPATH": path}
    run_job(replace(job, command=command), replace(setup, environ=environ), keep)
    return last


def _start_again(
    job: Job, environ: Mapping[str, str], output: Output, lab: Lab | None
) -> dict[int, int]:
    """Start the ranks, again after a failure if the job allows it; return the failed exit codes."""
    stop = lab.switch.over if lab is not None else None

    def give_line(rank: int, name: str, line: bytes) -> None:
        output(Line(rank if job.workers else None, name == ERR, line))

    for attempt in range(job.restarts + 1):
        more = {_RUN: "switchml-patch", _ATTEMPT: str(attempt)}
        environs = [{**environ, **own, **more} for own in number_ranks(job.workers)]
        environs = environs or [{**environ}]  # the command starts its ranks itself
        programs = [Program(job.command, job.cwd, own, grace=_GRACE) for own in environs]
        programs[0] = replace(programs[0], reads=job.stdin)
        failed = list_failed(side_by_side(programs, limit=None, output=give_line, stop=stop))
        if not failed or (stop is not None and stop.is_set()):
            break
    return failed


def _prepare_ranks(job: Job, setup: Setup, lab: Lab | None, directory: str) -> dict[str, str]:
    """Write the files that the ranks read, and return the environment of the ranks."""
    for name in ("site", rank_hook.REPORTS, _LOGS):
        os.mkdir(os.path.join(directory, name))
    site = os.path.join(directory, "site")
    shutil.copyfile(sitecustomize.__file__, os.path.join(site, f"{sitecustomize.NAME}.py"))
    shutil.copyfile(rank_hook.__file__, os.path.join(site, f"{sitecustomize.PREFIX}run.py"))
    own = {**_DEFAULTS, **(_ONE_THREAD if job.workers > 1 else {})}
    if _GOOGLE_LOGS not in setup.environ:
        own["GLOG_log_dir"] = os.path.join(directory, _LOGS)
    environ = {**own, **setup.environ}
    by_rank = {**(lab.variables if lab is not None else {})}
    configs = choose_configs(job, setup, lab, directory)
    if configs:
        environ.pop(rank_hook.CONFIG, None)
    if len(configs) == 1:
        environ[rank_hook.CONFIG] = configs[0]
    elif configs:
        by_rank[rank_hook.CONFIG] = configs
    environ["PYTHONPATH"] = interpreter.search_path(site, environ)
    environ[rank_hook.JOB] = os.path.join(directory, JOB)
    environ["SWITCHML_FOR_GLOO"] = str(int(setup.variant == PLUGIN))
    if job.require:
        environ["SWITCHML_REQUIRE"] = "1"
    data: dict[str, Any] = {
        "directory": directory,
        "root": os.path.realpath(setup.torch.root),
        "variant": setup.variant,
        "by_rank": by_rank,
    }
    files.write(environ[rank_hook.JOB], json.dumps(data).encode("ascii"))
    return environ


def choose_configs(job: Job, setup: Setup, lab: Lab | None, directory: str) -> list[str]:
    """Return the configurations of the ranks: one for each, one for all, or none.

    A configuration that has to be generated is written to `directory`.

    Raises:
        OptionsError: a configuration cannot be read.
    """
    if lab is not None:
        text = lab.config
    elif setup.variant == STOCK:
        return []
    elif len(job.configs) == 1 and job.workers != 1:
        text = config.without_numbers(config.load(job.configs[0]))
    elif job.configs or not setup.simulated:
        return [*job.configs]
    else:
        text = compose_simulated(controller_port=free_port())
    path = os.path.join(directory, config.NAME)
    config.save(path, text)
    return [path]
