"""status: what a tree, an interpreter or a wheel has of SwitchML."""

from __future__ import annotations

import os
import shutil

import click

from patchgen.cli import path_types
from patchgen.cli.console import Command, end, print_result
from patchgen.cli.params import json_option, known_pins, pytorch_option
from patchgen.core.patch import pins, report, state
from patchgen.errors import TreeError
from patchgen.extras.install.summary import summarize_python, summarize_wheel
from patchgen.system import interpreter, paths


@click.command(cls=Command)
@click.argument("target", metavar="TREE|PYTHON|WHEEL", type=path_types.Named())
@pytorch_option
@json_option
def status(target: str, pytorch: str | None, *, as_json: bool) -> None:
    """Show whether a PyTorch tree, an installed torch or a wheel is patched.

    A tree is clean, patched, partly patched, has foreign edits, was patched by another version of
    this tool, or is of another commit. Only the files of the patch are compared. For an installed
    torch, give its interpreter: the command then also shows whether the plugin is installed, and
    whether a graft is installed and fits.

    Exits with 3 if a tree is neither clean nor patched, or if torch, graft or plugin cannot be
    used; else with 0.
    """
    if not os.path.isdir(target) and (target.endswith(".whl") or shutil.which(target)):
        if pytorch is not None:
            raise click.UsageError("--pytorch is for a tree; drop it")
        _show_torch(target, as_json=as_json)
        return
    known, wanted = known_pins(pytorch)
    if not os.path.isdir(os.path.abspath(target)):
        there = os.path.lexists(target)
        what = (
            "neither a directory, nor a python or wheel"
            if there
            else "no such directory, python or wheel"
        )
        raise TreeError(f"{paths.describe(target)}: {what}")
    candidates = pins.serving(wanted.files, known) if wanted else known
    found = state.inspect(paths.from_native(target), candidates, wanted)
    print_result(report.state_lines(found), report.state_data(found), as_json=as_json)
    if found.overall not in (state.Overall.CLEAN, state.Overall.PATCHED):
        end(TreeError.exit_code)


def _show_torch(target: str, *, as_json: bool) -> None:
    """Print what an interpreter or a wheel has, and end the command with 3 if that is unsound."""
    if target.endswith(".whl"):
        summary = summarize_wheel(target)
    else:
        summary = summarize_python(interpreter.locate(target), os.environ)
    print_result(summary.lines(), summary.data(), as_json=as_json)
    if not summary.sound:
        end(TreeError.exit_code)
