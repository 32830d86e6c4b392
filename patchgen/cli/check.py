"""check: the requirements of a build, before an hour is spent on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from patchgen.cli import params
from patchgen.cli.console import Command, say, show_checks
from patchgen.cli.params import json_option
from patchgen.core.patch.report import options_data, options_line
from patchgen.system.checks import find_failed

if TYPE_CHECKING:
    from patchgen.core.wheel import BuildRequest


@click.command(cls=Command)
@params.check_options
@json_option
def check(request: BuildRequest, *, as_json: bool) -> None:
    """Check what a build needs, and say what is missing. Changes nothing.

    Exits with 0 if a build with these flags can succeed, else with 6. Rows marked [x] hold. Rows
    marked [ ] do not hold, and prevent a build. Rows marked [-] do not hold, but a build needs none
    of them. `switchml-patch doctor` checks what a training needs.
    """
    from patchgen.core.wheel.check import check_build

    pin, options = request.pin, request.options
    checks = check_build(request)
    if not as_json:
        verdict = "a build cannot start yet" if find_failed(checks) else "a build can start"
        say(f"PyTorch {pin.version} with {options_line(options)}: {verdict}")
    show_checks(
        checks,
        as_json=as_json,
        pin=pin.name,
        commit=pin.commit,
        options=options_data(options),
    )
