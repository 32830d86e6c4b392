"""run: a script on several ranks, with SwitchML in their torch."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from patchgen.cli import deprecated, params, path_types
from patchgen.cli.console import Command, option, print_json, progress, say_all, write_bytes
from patchgen.cli.packet_faults import SWITCH, fault_options
from patchgen.cli.params import json_option, read_options, simulating_options
from patchgen.errors import OptionsError, file_errors
from patchgen.options import DEV_ROOT, VARIABLES
from patchgen.ranks.ways import AUTO, WAYS
from patchgen.system import files

if TYPE_CHECKING:
    from patchgen.options import Options
    from patchgen.ranks.job import Line, Result
    from patchgen.ranks.lab import Faults

_CONFIG = "SWITCHML_CONFIG"
_HOME = "SWITCHML_HOME"


@click.command(cls=Command, context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="COMMAND...")
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="Ranks to start, 255 at most. [default: one for each --config, else 2]",
)
@click.option("--once", is_flag=True, help="Start COMMAND once; it starts its ranks itself.")
@deprecated.option("--python", "torch", "--torch", metavar="PYTHON")
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
    f"in. [env: {_CONFIG}; default with the simulator: made; else where the library looks]",
)
@click.option("--require", is_flag=True, help="Fail if a process group cannot delegate.")
@option(
    "--lab/--no-lab",
    "lab",
    group=SWITCH,
    default=None,
    help="Connect the real client library to a switch in software. [default: with a library that "
    "has DPDK and no --config]",
)
@fault_options
@params.cache_option
@click.option(
    "--report", type=path_types.OUTPUT_FILE, metavar="FILE", help="Write the result as JSON."
)
@json_option
@simulating_options
def run(  # noqa: PLR0913  # one for each option
    command: tuple[str, ...],
    *,
    workers: int | None,
    torch: str | None,
    way: str,
    graft: str | None,
    configs: tuple[str, ...],
    loss: float | None,
    duplicate: float | None,
    reorder: float | None,
    delay: float | None,
    seed: int | None,
    cache: str | None,
    report: str | None,
    once: bool,
    require: bool,
    lab: bool | None,
    as_json: bool,
    **variables: Any,
) -> None:
    """Runs COMMAND on every rank, and tells what SwitchML has summed.

    COMMAND is PYTHON SCRIPT ARGUMENT..., or without the interpreter, or any program; put -- before
    it. The exit code is that of the first rank that failed.

    Without SWITCHML_HOME the switch is simulated. With a client library that has DPDK, its packets
    go through a switch in software.
    """
    from patchgen.ranks import launchers  # no other command needs them
    from patchgen.ranks.command import resolve_command
    from patchgen.ranks.configs import read_configs
    from patchgen.ranks.job import DEFAULT_WORKERS, Interrupted, Job
    from patchgen.ranks.setup import prepare
    from patchgen.ranks.start import start_ranks

    if once and workers:
        raise OptionsError("--once: the command starts its ranks itself; drop --workers")
    faults = _read_faults(
        lab, loss=loss, duplicate=duplicate, reorder=reorder, delay=delay, seed=seed
    )
    lab = True if faults else lab
    if lab and configs:
        raise OptionsError("--lab: it makes the configurations; drop --config")
    cwd = os.getcwd()
    argv, python = resolve_command(command, torch, cwd, os.environ)
    paths = () if lab else configs or tuple(filter(None, [os.environ.get(_CONFIG)]))
    count = 0 if once else workers or (len(paths) if len(paths) > 1 else DEFAULT_WORKERS)
    job = Job(
        command=argv,
        python=python,
        cache=params.cache(cache),
        cwd=cwd,
        environ=dict(os.environ),
        workers=count,
        way=way,
        options=_read_options(variables),
        graft=os.path.abspath(graft) if graft else None,
        configs=read_configs([os.path.abspath(path) for path in paths]),
        require=require,
        lab=lab,
        faults=faults,
        notes=[*launchers.warnings(os.environ, count)],
    )
    with progress():
        setup = prepare(job)
    say_all(setup.notes)
    try:
        result = start_ranks(job, setup, _Printer(job.workers, quiet=as_json))
    except Interrupted as interrupted:
        _show_result(interrupted.result, report, as_json=as_json)
        raise
    _show_result(result, report, as_json=as_json)
    sys.exit(result.code)


def _show_result(result: Result, path: str | None, *, as_json: bool) -> None:
    from patchgen.ranks import report

    say_all(["", *report.lines(result)])
    data = report.data(result)
    if path is not None:
        with file_errors():
            files.replace(os.fsencode(path), (json.dumps(data, indent=2) + "\n").encode())
    if as_json:
        print_json(data)


def _read_faults(lab: bool | None, **shares: float | None) -> Faults | None:  # noqa: FBT001
    """Reads the faults of the software switch; None where the user names none."""
    from patchgen.ranks.lab import Faults

    named: dict[str, Any] = {name: value for name, value in shares.items() if value is not None}
    if named and lab is False:
        raise OptionsError(f"--{next(iter(named))} is of the lab; drop --no-lab")
    return Faults(**named) if named else None


def _read_options(variables: dict[str, Any]) -> Options | None:
    """Reads the user's variables, where a client library is named."""
    named = [variables["switchml_home"], os.environ.get(_HOME)]
    named += [variables["dev_root"], os.environ.get(DEV_ROOT.name)]
    if any(named):
        return read_options(variables)
    for variable in VARIABLES:
        if variables[variable.field] is not None:
            raise OptionsError(
                f"{variable.flag} is of a client library; name that with --switchml-home"
            )
    return None


class _Printer:
    """Gives out what the ranks write, with the rank before each line where there are several."""

    def __init__(self, workers: int, *, quiet: bool) -> None:
        self._several = workers > 1
        self._quiet = quiet

    def __call__(self, line: Line) -> None:
        stream = sys.stderr if line.error or self._quiet else sys.stdout
        prefix = b"[%d] " % line.rank if self._several and line.rank is not None else b""
        write_bytes(stream, prefix + line.text)
