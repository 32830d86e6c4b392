"""build: a verified wheel, from options."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from patchgen.cli import params
from patchgen.cli.console import Command, data, print_json, print_result, progress, say_all
from patchgen.cli.params import json_option
from patchgen.core.patch.report import options_data, options_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchgen.core.wheel import BuildRequest, Plan
    from patchgen.core.wheel.delivery import Delivered


@click.command(cls=Command)
@params.build_options
@click.option(
    "--dry-run", is_flag=True, help="Print the plan and what `check` refuses, and build nothing."
)
@json_option
def build(request: BuildRequest, *, dry_run: bool, as_json: bool) -> None:
    """Build a patched PyTorch: source, environment, patch, compile, wheel, verify.

    Continues where an interrupted build stopped. Repeats only the stages whose inputs changed.
    """
    from patchgen.core import wheel

    if dry_run:
        plan = wheel.plan(request)
        print_result(_plan_lines(plan), _plan_data(plan), as_json=as_json)
        wheel.refuse_missing(plan.missing)
        return
    with progress():
        made = wheel.build(request, lambda plan: say_all(_plan_lines(plan)))
    print_json(asdict(made)) if as_json else say_all(_lines(made))


def _plan_lines(plan: Plan) -> Iterator[str]:
    """Yield the lines of the plan; the value after a name can be copied into a shell."""
    request = plan.workspace.request
    variables = [f"{key}={shlex.quote(value)}" for key, value in plan.variables.items()]
    yield f"PyTorch {request.pin.name} ({request.pin.commit[:12]}) as torch {request.version}"
    yield f"  options      {options_line(request.options)}"
    yield f"  work         {shlex.quote(request.work)}"
    yield f"  output       {shlex.quote(request.output)}"
    yield f"  seen at      {_sandbox_line(plan)}"
    yield f"  built with   {shlex.quote(request.python or request.lock)}"
    yield f"  variables    {' '.join(variables)}"
    yield f"  jobs         {request.workers}, {request.launcher or 'no ccache'}"
    if request.accepted:
        yield f"  accepted     {' '.join(request.accepted)}"
    yield from (f"  {'done' if done else 'to do':12} {name}" for name, done in plan.stages)


def _sandbox_line(plan: Plan) -> str:
    """Return the path under which programs see the work directory, and their network access."""
    sandbox, remote = plan.workspace.sandbox, plan.workspace.request.remote_cache
    if sandbox.isolated:
        network = f"with your network for {remote}" if remote else "without network"
        return f"{sandbox.inside}, {network}"
    if sandbox.fixed:
        return f"{sandbox.inside}, with your network"
    return f"{sandbox.inside}: its path will be in the wheel; no namespaces: {sandbox.reason}"


def _plan_data(plan: Plan) -> dict[str, object]:
    request = plan.workspace.request
    return {
        "pin": request.pin.name,
        "commit": request.pin.commit,
        "version": request.version,
        "options": options_data(request.options),
        "work": request.work,
        "seen": plan.workspace.sandbox.inside,
        "output": request.output,
        "python": request.python,
        "lock": None if request.python else request.lock,
        "variables": dict(plan.variables),
        "jobs": request.workers,
        "stages": [{"name": name, "done": done} for name, done in plan.stages],
        "missing": [data(row) for row in plan.missing],
    }


def _lines(made: Delivered) -> Iterator[str]:
    yield made.wheel
    yield f"  sha256 {made.sha256}"
    yield from (f"  {path}" for path in made.beside)
    yield "install it, and what goes with it:"
    yield from (f"  {command}" for command in made.commands)
