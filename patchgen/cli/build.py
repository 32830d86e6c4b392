"""build: a verified wheel, from options."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from patchgen.cli import params
from patchgen.cli.console import Command, data, print_json, progress, say_all
from patchgen.cli.params import chosen_pin, json_option, pytorch_option, variable_options
from patchgen.core.patch.report import options_data, options_line
from patchgen.system import paths
from patchgen.system.interpreter import locate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchgen.cli.params import Sources, Variables
    from patchgen.core.wheel import BuildRequest, Plan
    from patchgen.core.wheel.delivery import Delivered


@dataclass(frozen=True)
class _Build:
    variables: Variables
    pytorch: str | None
    work: str | None
    interpreter: str | None
    lock_file: str
    cache: str | None
    places: Sources
    without: tuple[str, ...]
    settings: tuple[str, ...]
    jobs: int | None
    accepted: tuple[str, ...]
    configs: tuple[str, ...]
    dry_run: bool
    as_json: bool


@click.command(cls=Command)
@variable_options
@pytorch_option
@params.work_option
@params.python_option
@params.lock_option
@params.cache_option
@params.place_options
@params.without_option
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set a variable of PyTorch's build, whatever the environment has. May be repeated.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of compilers that run at once. [env: MAX_JOBS; default: by cores and memory]",
)
@params.accept_option
@params.config_option
@click.option(
    "--dry-run", is_flag=True, help="Print the plan and what `check` refuses, and build nothing."
)
@json_option
@params.into(_Build)
def build(asked: _Build) -> None:
    """Build a patched PyTorch: source, environment, patch, compile, wheel, verify.

    Continues where an interrupted build stopped. Repeats only the stages whose inputs changed.
    """
    from patchgen.core import wheel

    request = _read_request(asked)
    if asked.dry_run:
        plan = wheel.plan(request)
        if asked.as_json:
            print_json(_plan_data(plan))
        else:
            click.echo("\n".join(_plan_lines(plan)))
        wheel.refuse_missing(plan.missing)
        return
    with progress():
        made = wheel.build(request, _announce)
    print_json(_data(made)) if asked.as_json else say_all(_lines(made))


def _announce(plan: Plan) -> None:
    say_all(_plan_lines(plan))


def _read_request(asked: _Build) -> BuildRequest:
    """Resolve the names and paths of the command line and the environment.

    Raises:
        OptionsError: a value is refused.
    """
    from patchgen.core.wheel import BuildRequest, env, variables

    options = asked.variables.read()
    cwd, cache = os.getcwd(), params.cache(asked.cache)
    pin = chosen_pin(asked.pytorch)
    return BuildRequest(
        pin=pin,
        options=options,
        work=os.path.normpath(os.path.join(cwd, asked.work or params.find_work(pin))),
        output=os.fsdecode(paths.encode(options.builddir)),
        python=locate(asked.interpreter) if asked.interpreter else None,
        lock=os.path.join(cwd, asked.lock_file),
        environment=env.locate(params.ENVIRONMENT, cwd),
        cache=cache,
        environ=dict(os.environ),
        settings=variables.parse(asked.settings),
        places=asked.places.find(),
        without=asked.without,
        jobs=asked.jobs,
        configs=tuple(os.path.join(cwd, path) for path in asked.configs),
        accepted=tuple(sorted({*asked.accepted})),
    )


def _plan_lines(plan: Plan) -> Iterator[str]:
    """Yield the lines of the plan; the value after a name can be copied into a shell."""
    request = plan.request
    variables = [f"{key}={shlex.quote(value)}" for key, value in plan.variables.items()]
    yield f"PyTorch {request.pin.name} ({request.pin.commit[:12]}) as torch {request.version}"
    yield f"  options      {options_line(request.options)}"
    yield f"  work         {shlex.quote(request.work)}"
    yield f"  output       {shlex.quote(request.output)}"
    yield f"  seen at      {_place_line(plan)}"
    yield f"  built with   {shlex.quote(request.python or request.lock)}"
    yield f"  variables    {' '.join(variables)}"
    yield f"  jobs         {request.workers}, {request.launcher or 'no ccache'}"
    if request.accepted:
        yield f"  accepted     {' '.join(request.accepted)}"
    yield from (f"  {'done' if done else 'to do':12} {name}" for name, done in plan.stages)


def _place_line(plan: Plan) -> str:
    """Return the path under which programs see the work directory, and their network access."""
    place, remote = plan.place, plan.request.remote_cache
    if place.fixed:
        return f"{place.seen}, {f'with your network for {remote}' if remote else 'without network'}"
    return f"{place.seen}: its path will be in the wheel; no namespaces: {place.reason}"


def _plan_data(plan: Plan) -> dict[str, object]:
    request = plan.request
    return {
        "pin": request.pin.name,
        "commit": request.pin.commit,
        "version": request.version,
        "options": options_data(request.options),
        "work": request.work,
        "seen": plan.place.seen,
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


def _data(made: Delivered) -> dict[str, object]:
    return {
        "wheel": made.wheel,
        "sha256": made.sha256,
        "python": made.python,
        "beside": list(made.beside),
        "commands": list(made.commands),
    }
