"""A list of checks, for people and for scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from patchgen.checks import hold
from patchgen.cli.common import print_json
from patchgen.errors import CheckError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchgen.checks import Check

_SHOWN = 10  # problems of one check


def show(checks: Sequence[Check], *, as_json: bool, **about: object) -> None:
    """Prints the checks, and ends the command with 6 where one that is required does not hold."""
    if as_json:
        print_json({**about, "ok": hold(checks), "checks": [data(check) for check in checks]})
    else:
        for check in checks:
            _show_one(check)
    if not hold(checks):
        click.get_current_context().exit(CheckError.exit_code)


def data(check: Check) -> dict[str, object]:
    """A check for scripts."""
    return {
        "name": check.name,
        "ok": check.ok,
        "required": check.required,
        "found": check.found,
        "problems": list(check.problems),
    }


def _show_one(check: Check) -> None:
    found = f": {check.found}" if check.found else ""
    click.echo(f"[{'x' if check.ok else ' '}] {check.name}{found}")
    for problem in check.problems[:_SHOWN]:
        click.echo(f"      {problem}")
    if len(check.problems) > _SHOWN:
        click.echo(f"      and {len(check.problems) - _SHOWN} more")
