"""verify: import a torch, and check its flags and its sums."""

from __future__ import annotations

import os

import click

from patchgen.cli import params, path_types
from patchgen.cli.console import Command, progress, show_checks
from patchgen.cli.params import json_option
from patchgen.errors import OptionsError


@click.command(cls=Command)
@click.argument("target", type=path_types.Named(), metavar="PYTHON|WHEEL")
@click.option(
    "--python",
    "interpreter",
    type=path_types.Named(),
    metavar="PYTHON",
    help="Interpreter that imports the WHEEL. [default: of the wheel's version, on PATH]",
)
@params.config_option
@click.option(
    "--timeout",
    type=params.SECONDS,
    default=120,
    metavar="SECONDS",
    help="Time limit for the ranks. [default: 120]",
)
@json_option
def verify(
    target: str, interpreter: str | None, configs: tuple[str, ...], timeout: float, *, as_json: bool
) -> None:
    """Import a torch, and sum on several ranks with SwitchML.

    Checks every variant that is installed: the patch or graft, and the plugin. Exits with 0 only if
    all checks hold, else with 6.
    """
    from patchgen.core import verify as verifying

    request = verifying.VerifyRequest(target, os.environ, interpreter, None, configs, timeout)
    if interpreter is not None and not request.is_wheel:
        raise OptionsError(f"--python is for a wheel, and {target} is none; drop it")
    with progress():
        checks = verifying.verify(request)
    show_checks(checks, as_json=as_json, target=target)
