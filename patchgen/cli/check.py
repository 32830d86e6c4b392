"""check: what is here, what is missing, and what to do, before an hour of building."""

from __future__ import annotations

import os
from typing import Any

import click

from patchgen.checks import hold
from patchgen.cli import params
from patchgen.cli.console import Command, say, show_checks
from patchgen.cli.params import (
    chosen_pin,
    json_option,
    only_variable_options,
    pytorch_option,
    read_options,
)
from patchgen.patch.report import options_data, options_line


@click.command(cls=Command)
@only_variable_options
@pytorch_option
@params.python_option
@params.lock_option
@params.work_option
@params.accept_option
@json_option
def check(
    interpreter: str | None,
    lock_file: str,
    work: str | None,
    *,
    as_json: bool,
    **given: Any,  # the other options
) -> None:
    """Tells what a build needs: what is here, what is missing, what to do. Changes nothing.

    Exits with 0 only where a build with these flags can succeed, else with 6. A row marked [x]
    holds, one marked [ ] does not, and one marked [-] does not but does not count either. What a
    training needs tells `switchml-patch doctor`.
    """
    from patchgen.wheel import check as preflight  # no other command needs it
    from patchgen.wheel import env

    options = read_options(given)
    pin = chosen_pin(given["pytorch"])
    site = preflight.Site(
        work=params.work(work, pin),
        python=interpreter,
        lock=None if interpreter else lock_file,
        environ=dict(os.environ),
        cwd=os.getcwd(),
        accepted=frozenset(given["accepted"]),
        environment=env.locate(params.ENVIRONMENT, os.getcwd()),
    )
    checks = preflight.run(options, pin, site)
    if not as_json:
        verdict = "a build can start" if hold(checks) else "a build cannot start yet"
        say(f"PyTorch {pin.version} with {options_line(options)}: {verdict}")
    show_checks(
        checks, as_json=as_json, pin=pin.name, commit=pin.commit, options=options_data(options)
    )
