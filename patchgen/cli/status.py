"""status: what a tree, an interpreter or a wheel has of SwitchML."""

from __future__ import annotations

import os
import shutil

import click

from patchgen.cli.console import Command, print_json
from patchgen.cli.params import json_option, known_pins, pytorch_option
from patchgen.core.patch import report, state
from patchgen.errors import TreeError
from patchgen.extras.install.summary import summarize_python, summarize_wheel
from patchgen.system import interpreter, paths


@click.command(cls=Command)
@click.argument("target", metavar="TREE|PYTHON|WHEEL", type=click.Path())
@pytorch_option
@json_option
@click.pass_context
def status(ctx: click.Context, target: str, pytorch: str | None, *, as_json: bool) -> None:
    """Tells whether a PyTorch tree, an installed torch or a wheel is patched.

    A tree is clean, patched, partly patched, or something else. Of an installed torch, which its
    interpreter stands for, also: whether a graft is installed, whether it fits, and whether the
    plugin is there.

    Exits with 0 where all that is there fits, and with 3 where something does not.
    """
    if not os.path.isdir(target) and (target.endswith(".whl") or shutil.which(target)):
        if pytorch is not None:
            raise click.UsageError("--pytorch is for a tree; drop it")
        _status_of_torch(ctx, target, as_json=as_json)
        return
    known, wanted = known_pins(pytorch)
    found = state.inspect(paths.from_native(target), (wanted,) if wanted else known)
    if as_json:
        print_json(report.state_data(found))
    else:
        for line in report.state_lines(found):
            click.echo(line)
    if found.overall not in (state.Overall.CLEAN, state.Overall.PATCHED):
        ctx.exit(TreeError.exit_code)


def _status_of_torch(ctx: click.Context, target: str, *, as_json: bool) -> None:
    if target.endswith(".whl"):
        summary = summarize_wheel(target)
    else:
        summary = summarize_python(interpreter.locate(target), os.environ)
    if as_json:
        print_json(summary.data())
    else:
        for line in summary.lines():
            click.echo(line)
    if not summary.sound:
        ctx.exit(TreeError.exit_code)
