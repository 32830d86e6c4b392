"""doctor: a check of each part of the way to the switch, on this machine."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import click

from patchgen.cli import params, path_types
from patchgen.cli.console import Command, end, print_result, progress, say_all
from patchgen.cli.lab_options import CONFIG, lab_options
from patchgen.cli.params import json_option, simulating_options
from patchgen.errors import CheckError
from patchgen.extras.train.variants import AUTO, STOCK, VARIANTS
from patchgen.system import files, interpreter

if TYPE_CHECKING:
    from patchgen.cli.lab_options import LabRequest
    from patchgen.cli.params import Variables


@click.command(cls=Command)
@click.option(
    "--workers", type=click.IntRange(2, 255), default=2, show_default=True, metavar="N",
    help="Number of ranks to start.",
)  # fmt: skip
@click.option(
    "--torch", default="python3", show_default=True, metavar="PYTHON",
    help="Interpreter whose torch is checked.",
)  # fmt: skip
@click.option(
    "--variant",
    type=click.Choice([variant for variant in VARIANTS if variant != STOCK]),
    default=AUTO,
    help="Variant of SwitchML in the ranks. [default: auto: the installed one, else the plugin]",
)
@click.option(
    "--config",
    type=path_types.Named(),
    metavar="FILE",
    help=f"The switchml.cfg of all ranks. [env: {CONFIG}; default: generated for the simulator, "
    "else where the library looks]",
)
@click.option(
    "--timeout",
    type=params.SECONDS,
    default=30,
    metavar="SECONDS",
    help="Limit for ranks to wait for each other, and for each step. [default: 30]",
)
@click.option(
    "--times/--no-times", default=True, help="Measure SwitchML and Gloo at several sizes."
)
@lab_options
@params.cache_option
@json_option
@simulating_options
def doctor(
    *,
    workers: int,
    torch: str,
    variant: str,
    config: str | None,
    lab: LabRequest,
    timeout: float,
    times: bool,
    cache: str | None,
    as_json: bool,
    variables: Variables,
) -> None:
    """Check each part of the way to the switch, and say what to do where it fails.

    Starts ranks on this machine, and checks them from the launcher to a correct sum. On several
    machines, start `python -m switchml_doctor` as you start a training. Exits with 6 if a check
    fails.
    """
    from patchgen.extras import doctor as examining
    from patchgen.extras.doctor.payload.switchml_doctor import table
    from patchgen.extras.train.job import Job
    from patchgen.extras.train.setup import prepare
    from patchgen.extras.train.start import run_command

    job = Job(
        command=(),
        python=interpreter.locate(torch),
        cache=params.cache(cache),
        cwd=os.getcwd(),
        environ=dict(os.environ),
        workers=workers,
        variant=variant,
        options=variables.read_library(),
        configs=lab.find_configs([config] if config else []),
        lab=lab.wanted,
        faults=lab.faults,
    )
    with files.scratch("setup") as directory:
        with progress():
            setup = prepare(job, directory)
        say_all(setup.notes)
        report = examining.examine(
            partial(run_command, job, setup),
            setup.torch.python,
            timeout=timeout,
            measures=times,
            simulated=setup.switch is not None,
        )
    print_result(table.lines(report), report, as_json=as_json)
    if not report["holds"]:
        end(CheckError.exit_code)
