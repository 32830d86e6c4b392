"""run: a script on several ranks, with SwitchML in their torch."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from patchgen.cli import params, path_types
from patchgen.cli.console import Command, print_json, progress, say, say_all, write_bytes
from patchgen.cli.host_options import host_options
from patchgen.cli.lab_options import CONFIG, lab_options
from patchgen.cli.params import json_option, simulating_options
from patchgen.errors import file_errors
from patchgen.extras.train.ways import AUTO, WAYS
from patchgen.system import files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from threading import Event

    from patchgen.cli.lab_options import LabRequest
    from patchgen.cli.params import Variables
    from patchgen.extras.train.hosts.rendezvous import Rendezvous, Request
    from patchgen.extras.train.job import Job, Line, Result, Setup

    Output = Callable[[Line], None]
    Printing = Callable[[Job], AbstractContextManager[tuple[Job, Output]]]


@dataclass(frozen=True)
class _Run:
    """Request of `run`, as the command line has it."""

    command: tuple[str, ...]
    hosts: Request
    torch: str | None
    way: str
    graft: str | None
    configs: tuple[str, ...]
    require: bool
    metrics: bool
    lab: LabRequest
    cache: str | None
    report: str | None
    as_json: bool
    variables: Variables


@click.command(cls=Command, context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="COMMAND...")
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="Ranks to start on this machine alone, 255 at most. [default: one for each --config, "
    "else 2]",
)
@host_options
@click.option("--once", is_flag=True, help="Start COMMAND once; it starts its ranks itself.")
@click.option(
    "--torch",
    metavar="PYTHON",
    help="Interpreter whose torch the ranks use, if COMMAND names none. [default: python3]",
)
@click.option(
    "--way",
    type=click.Choice(WAYS),
    default=AUTO,
    help="How the ranks get SwitchML. [default: auto: what is there, else the plugin]",
)
@click.option(
    "--graft", type=click.Path(), metavar="LIB.so", help="Graft to load; it need not be installed."
)
@click.option(
    "--config",
    "configs",
    type=click.Path(),
    multiple=True,
    metavar="FILE",
    help="A switchml.cfg for each rank, or one for all, in which rank and num_workers are filled "
    f"in. [env: {CONFIG}; default with the simulator: made; else where the library looks]",
)
@click.option("--require", is_flag=True, help="Fail if a process group cannot delegate.")
@click.option(
    "--metrics",
    is_flag=True,
    help="Show the counters of the ranks of this machine while they run.",
)
@lab_options(
    "; over hosts it is on the first. [default: on one machine, with a library that has DPDK and "
    "no --config]"
)
@params.cache_option
@click.option(
    "--report", type=path_types.OUTPUT_FILE, metavar="FILE", help="Write the result as JSON."
)
@json_option
@simulating_options
@params.into(_Run)
def run(asked: _Run) -> None:
    """Runs COMMAND on every rank, and tells what SwitchML has summed.

    Start it on each host for a job over several, with --nnodes or bare by srun or mpirun.

    COMMAND is PYTHON SCRIPT ARGUMENT..., or without the interpreter, or any program; put -- before
    it. The exit code is that of the first rank that failed.

    Without SWITCHML_HOME the switch is simulated. With a client library that has DPDK, its packets
    go through a switch in software.
    """
    from patchgen.extras.train import launchers  # no other command needs them
    from patchgen.extras.train.hosts.exchange import HostLost
    from patchgen.extras.train.hosts.rendezvous import plan_rendezvous

    rendezvous = plan_rendezvous(asked.hosts, os.environ)
    make_job, workers = _read_job(asked)
    show = functools.partial(_show_result, path=asked.report, as_json=asked.as_json)
    printing = functools.partial(_printing, quiet=asked.as_json, metrics=asked.metrics)
    if rendezvous is None:
        notes = [*launchers.warnings(os.environ, workers)]
        sys.exit(_run_alone(make_job(workers=workers, notes=notes), show, printing))
    try:
        sys.exit(_run_together(rendezvous, make_job, show, printing))
    except HostLost as error:
        say(f"error: {error}")
        sys.exit(error.code)


def _read_job(asked: _Run) -> tuple[Callable[..., Job], int]:
    """Resolves names and paths of the command line, and the environment.

    Returns:
        What makes the job once its hosts are known, and its ranks on this host alone.

    Raises:
        OptionsError: one is refused.
    """
    from patchgen.extras.train.command import resolve_command
    from patchgen.extras.train.job import DEFAULT_WORKERS, Job

    hosts = asked.hosts
    configs = asked.lab.read_configs(asked.configs)
    cwd = os.getcwd()
    argv, python = resolve_command(asked.command, asked.torch, cwd, os.environ)
    several = len(configs.files) if len(configs.files) > 1 else DEFAULT_WORKERS
    workers = 0 if hosts.once else hosts.workers or hosts.ranks or several
    make_job = functools.partial(
        Job,
        command=argv,
        python=python,
        cache=params.cache(asked.cache),
        cwd=cwd,
        environ=dict(os.environ),
        elastic=hosts.elastic,
        way=asked.way,
        options=asked.variables.read_library(),
        graft=os.path.abspath(asked.graft) if asked.graft else None,
        configs=configs,
        require=asked.require,
        lab=asked.lab.wanted,
        faults=asked.lab.faults,
    )
    return make_job, workers


def _run_alone(job: Job, show: Callable[[Result], None], printing: Printing) -> int:
    """Runs a job on this machine; returns its exit code."""
    from patchgen.extras.train.setup import prepare

    with progress():
        setup = prepare(job)
    result = _start(job, setup, show, printing)
    show(result)
    return result.code


def _run_together(
    rendezvous: Rendezvous,
    make_job: Callable[..., Job],
    show: Callable[..., None],
    printing: Printing,
) -> int:
    """Runs this host's part of a job; returns the job's exit code."""
    from patchgen.extras.train.hosts.party import met
    from patchgen.extras.train.setup import prepare

    with contextlib.ExitStack() as stack:
        with progress():
            party = stack.enter_context(met(rendezvous))
            job = make_job(workers=party.hosts.size, hosts=party.hosts)
            setup = stack.enter_context(party.agreed(job, prepare(job)))
        result = party.combine(_start(job, setup, show, printing, party.over))
    if setup.lab is not None:  # whose switch has ended by now
        result = dataclasses.replace(result, counters=setup.lab.counters or None)
    show(result, brief=not party.is_first)
    return result.code


def _start(
    job: Job,
    setup: Setup,
    show: Callable[[Result], None],
    printing: Printing,
    over: Event | None = None,
) -> Result:
    from patchgen.extras.train.job import Interrupted
    from patchgen.extras.train.start import start_ranks

    say_all(setup.notes)
    try:
        with printing(job) as (watched, output):
            return start_ranks(watched, setup, output, over)
    except Interrupted as interrupted:
        show(interrupted.result)
        raise


def _show_result(result: Result, path: str | None, *, as_json: bool, brief: bool = False) -> None:
    """Shows a result; `brief` where another host shows the table of all ranks."""
    from patchgen.extras.train import report

    say_all(["", *(report.failures(result) if brief else report.lines(result))])
    data = report.data(result)
    if path is not None:
        with file_errors():
            files.replace(os.fsencode(path), (json.dumps(data, indent=2) + "\n").encode())
    if as_json:
        print_json(data)


@contextlib.contextmanager
def _printing(job: Job, *, quiet: bool, metrics: bool) -> Iterator[tuple[Job, Output]]:
    """The job, and what writes the lines of its ranks while the block lasts."""
    printer = _Printer(job.workers, quiet=quiet)
    if not metrics:
        yield job, printer
        return
    from patchgen.cli.watching import watched

    with watched(job, printer) as watching:
        yield watching


class _Printer:
    """Gives out what the ranks write, with the rank before each line where there are several."""

    def __init__(self, workers: int, *, quiet: bool) -> None:
        self._several = workers > 1
        self._quiet = quiet

    def __call__(self, line: Line) -> None:
        stream = sys.stderr if line.error or self._quiet else sys.stdout
        prefix = b"[%d] " % line.rank if self._several and line.rank is not None else b""
        write_bytes(stream, prefix + line.text)
