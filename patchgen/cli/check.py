"""check: the requirements of a build, before an hour is spent on it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from patchgen.cli import params
from patchgen.cli.console import Command, say, show_checks
from patchgen.cli.params import chosen_pin, json_option, pytorch_option, variable_options
from patchgen.core.patch.report import options_data, options_line
from patchgen.system.checks import hold

if TYPE_CHECKING:
    from patchgen.cli.params import Variables


@dataclass(frozen=True)
class _Request:
    variables: Variables
    pytorch: str | None
    interpreter: str | None
    lock_file: str
    work: str | None
    accepted: tuple[str, ...]
    as_json: bool


@click.command(cls=Command)
@variable_options
@pytorch_option
@params.python_option
@params.lock_option
@params.work_option
@params.accept_option
@json_option
@params.into(_Request)
def check(request: _Request) -> None:
    """Check what a build needs, and say what is missing. Changes nothing.

    Exits with 0 if a build with these flags can succeed, else with 6. Rows marked [x] hold. Rows
    marked [ ] do not hold, and prevent a build. Rows marked [-] do not hold, but a build needs none
    of them. `switchml-patch doctor` checks what a training needs.
    """
    from patchgen.core.wheel import check as preflight
    from patchgen.core.wheel import env

    pin = chosen_pin(request.pytorch)
    asked = preflight.CheckRequest(
        options=request.variables.read(),
        pin=pin,
        work=request.work or params.find_work(pin),
        python=request.interpreter,
        lock=None if request.interpreter else request.lock_file,
        environ=dict(os.environ),
        cwd=os.getcwd(),
        accepted=frozenset(request.accepted),
        environment=env.locate(params.ENVIRONMENT, os.getcwd()),
    )
    checks = preflight.check_build(asked)
    if not request.as_json:
        verdict = "a build can start" if hold(checks) else "a build cannot start yet"
        say(f"PyTorch {pin.version} with {options_line(asked.options)}: {verdict}")
    show_checks(
        checks,
        as_json=request.as_json,
        pin=pin.name,
        commit=pin.commit,
        options=options_data(asked.options),
    )
