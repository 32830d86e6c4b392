"""run: a script on several ranks, with SwitchML in their torch."""

from __future__ import annotations

import functools
import json
import os
import sys
from typing import TYPE_CHECKING

import click

from patchgen.cli import params, path_types
from patchgen.cli.console import Command, end, print_json, progress, say_all
from patchgen.cli.lab_options import CONFIG, lab_options
from patchgen.cli.params import json_option, simulating_options
from patchgen.errors import OptionsError, file_errors
from patchgen.extras.train.variants import AUTO, VARIANTS
from patchgen.system import files

if TYPE_CHECKING:
    from patchgen.cli.lab_options import LabRequest
    from patchgen.cli.params import Variables
    from patchgen.extras.train.results import Result
    from patchgen.extras.train.start import Line


@click.command(cls=Command, context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="COMMAND...")
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of ranks to start, at most 255. [default: one for each --config, else 2]",
)
@click.option("--once", is_flag=True, help="Start COMMAND once; it starts the ranks itself.")
@click.option(
    "--max-restarts",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Number of times to restart all ranks after a rank has failed. [default: 0]",
)
@click.option(
    "--torch",
    metavar="PYTHON",
    help="Interpreter whose torch the ranks use, if COMMAND names none. [default: python3]",
)
@click.option(
    "--variant",
    type=click.Choice(VARIANTS),
    default=AUTO,
    help="Variant of SwitchML in the ranks. [default: auto: the installed one, else the plugin]",
)
@click.option(
    "--graft",
    type=path_types.Named(),
    metavar="LIB.so",
    help="Graft to load; it need not be installed.",
)
@click.option(
    "--config",
    "configs",
    type=path_types.Named(),
    multiple=True,
    metavar="FILE",
    help="The switchml.cfg of each rank, or one for all, in which rank and num_workers are filled "
    f"in. [env: {CONFIG}; default: generated for the simulator, else where the library looks]",
)
@click.option("--require", is_flag=True, help="Fail if a group cannot delegate, or no group did.")
@lab_options
@params.cache_option
@click.option(
    "--report", type=path_types.OUTPUT_FILE, metavar="FILE",
    help="Write the result to this file as JSON.",
)  # fmt: skip
@json_option
@simulating_options
def run(
    *,
    command: tuple[str, ...],
    workers: int | None,
    once: bool,
    max_restarts: int,
    torch: str | None,
    variant: str,
    graft: str | None,
    configs: tuple[str, ...],
    require: bool,
    lab: LabRequest,
    cache: str | None,
    report: str | None,
    as_json: bool,
    variables: Variables,
) -> None:
    """Run COMMAND on every rank, and report what SwitchML has summed.

    COMMAND is PYTHON SCRIPT ARGUMENT..., or without the interpreter, or any program; put -- before
    it. The exit code is that of the first rank that failed.

    Without SWITCHML_HOME the switch is simulated. With a client library that has DPDK, its packets
    go through a switch in software.
    """
    from patchgen.extras.train.command import resolve_command, warn_of_launcher
    from patchgen.extras.train.job import DEFAULT_WORKERS, Job
    from patchgen.extras.train.results import Interrupted
    from patchgen.extras.train.setup import prepare
    from patchgen.extras.train.start import run_job

    if once and workers:
        raise OptionsError("--once: the command starts its ranks itself; drop --workers")
    found = lab.find_configs(configs)
    several = len(found) if len(found) > 1 else DEFAULT_WORKERS
    ranks = 0 if once else workers or several
    cwd = os.getcwd()
    argv, python = resolve_command(command, torch, cwd, os.environ)
    job = Job(
        command=argv,
        python=python,
        cache=params.cache(cache),
        cwd=cwd,
        environ=dict(os.environ),
        workers=ranks,
        restarts=max_restarts,
        variant=variant,
        options=variables.read_library(),
        graft=os.path.abspath(graft) if graft else None,
        configs=found,
        require=require,
        lab=lab.wanted,
        faults=lab.faults,
        stdin=None if sys.stdin is None else 0,
        notes=[] if once else [*warn_of_launcher(os.environ, ranks)],
    )
    interrupted = None
    with files.scratch("setup") as directory:
        with progress():
            setup = prepare(job, directory)
        say_all(setup.notes)
        try:
            output = functools.partial(_print, numbered=job.workers > 1, quiet=as_json)
            result = run_job(job, setup, output)
        except Interrupted as error:
            result, interrupted = error.result, error
    _show_result(result, report, as_json=as_json)
    if interrupted is not None:
        raise interrupted
    end(result.code)


def _show_result(result: Result, report: str | None, *, as_json: bool) -> None:
    from patchgen.extras.train import result_text

    say_all(["", *result_text.lines(result)])
    data = result_text.data(result)
    if report is not None:
        with file_errors():
            files.replace(os.fsencode(report), (json.dumps(data, indent=2) + "\n").encode())
    if as_json:
        print_json(data)


def _print(line: Line, *, numbered: bool, quiet: bool) -> None:
    """Print a line of a rank, with its number if it is one of several."""
    prefix = b"[%d] " % line.rank if numbered and line.rank is not None else b""
    click.echo(prefix + line.text, nl=False, err=line.error or quiet)
