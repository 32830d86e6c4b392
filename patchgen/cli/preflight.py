"""check: what is here, what is missing, and what to do, before an hour of building."""

from __future__ import annotations

import os
from typing import Any

import click

from patchgen import pins
from patchgen.checks import hold
from patchgen.cli.checking import show
from patchgen.cli.common import (
    json_option,
    known_pins,
    pytorch_option,
    read_options,
    say,
    variable_options,
)
from patchgen.errors import OptionsError
from patchgen.summary import options_data, options_line


@click.command()
@variable_options
@pytorch_option
@click.option(
    "--python",
    "interpreter",
    metavar="PYTHON",
    help="To build with this interpreter and the compiler on PATH, without conda.",
)
@click.option(
    "--lock",
    "lock_file",
    type=click.Path(),
    default="conda-lock.yml",
    metavar="FILE",
    help="Else to build in the environment of this lock. [default: conda-lock.yml]",
)
@click.option(
    "--work",
    type=click.Path(),
    metavar="DIR",
    help="Where to build. [default: /var/tmp/switchml-patch/VERSION]",
)
@json_option
def check(  # noqa: PLR0913  # one for each option
    interpreter: str | None,
    lock_file: str,
    work: str | None,
    pytorch: str | None,
    *,
    strict: bool,
    as_json: bool,
    **given: Any,  # noqa: ANN401  # one for each variable
) -> None:
    """Tells what a build needs: what is here, what is missing, what to do. Changes nothing.

    Exits with 0 only where a build with these flags can succeed, else with 6. What a run needs is
    told in rows that begin with "run:" and does not count.
    """
    from patchgen import preflight  # noqa: PLC0415  # no other command needs it

    del strict  # what is missing always counts here
    options = read_options(given)
    known, wanted = known_pins(pytorch)
    pin = wanted or pins.find(pins.DEFAULT, known)
    site = preflight.Site(
        work=work or preflight.default_work(pin),
        python=interpreter,
        lock=None if interpreter else lock_file,
        environ=dict(os.environ),
        cwd=_directory(),
    )
    checks = preflight.run(options, pin, site)
    if not as_json:
        verdict = "a build can start" if hold(checks) else "a build cannot start yet"
        say(f"PyTorch {pin.version} with {options_line(options)}: {verdict}")
    show(checks, as_json=as_json, pin=pin.name, commit=pin.commit, options=options_data(options))


def _directory() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise OptionsError("the current directory no longer exists; change to another") from None
