"""verify: what has this torch of SwitchML, with which flags, and does it sum?"""

from __future__ import annotations

import os

import click

from patchgen.cli import params
from patchgen.cli.console import Command, progress, show_checks
from patchgen.cli.params import json_option
from patchgen.errors import OptionsError


@click.command(cls=Command)
@click.argument("target", type=click.Path(), metavar="PYTHON|WHEEL")
@click.option(
    "--python",
    "interpreter",
    type=click.Path(),
    metavar="PYTHON",
    help="Interpreter that imports the WHEEL. [default: on PATH, of the version that it names]",
)
@params.config_option
@click.option(
    "--timeout",
    type=params.SECONDS,
    default=120,
    metavar="SECONDS",
    help="Limit for the ranks. [default: 120]",
)
@json_option
def verify(
    target: str, interpreter: str | None, configs: tuple[str, ...], timeout: float, *, as_json: bool
) -> None:
    """Imports a torch, and sums on several ranks with SwitchML.

    It sums with each that the torch has: the patch or a graft, and the plugin.
    Exits with 0 only if all holds, else with 6.
    """
    from patchgen.core.verify import verify_python, verify_wheel  # no other command needs it

    with progress():
        if os.path.basename(target).endswith(".whl"):
            checks = verify_wheel(target, interpreter, None, configs, os.environ, limit=timeout)
        elif interpreter is not None:
            raise OptionsError(f"--python is for a wheel, and {target} is none; drop it")
        else:
            checks = verify_python(target, None, configs, os.environ, limit=timeout)
    show_checks(checks, as_json=as_json, target=target)
