"""What the commands share: their options, their output, and errors as exit codes."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Callable

import click

from patchgen import homes, pins
from patchgen.errors import EXIT_CODES, InterruptedRun, OptionsError, PatchgenError
from patchgen.options import DEV_ROOT, DEV_ROOT_FLAG, VARIABLES, Options, Variable, resolve

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from patchgen.pins import Pin

Command = Callable[..., Any]

EPILOG = "\b\nExit codes:\n" + "\n".join(
    f"  {code:>3}  {meaning}" for code, meaning in EXIT_CODES.items()
)

json_option = click.option("--json", "as_json", is_flag=True, help="Data on stdout, for scripts.")
pytorch_option = click.option(
    "--pytorch",
    metavar="PIN",
    help=f"Commit prefix, version or pin file, see: switchml-patch pins. [default: {pins.DEFAULT}, "
    "or what the tree is]",
)


class Main(click.Group):
    """Turns what a user can mend into one or two lines and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401  # as in click
        """Runs a command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            error: PatchgenError = InterruptedRun("interrupted")
        except PatchgenError as caught:
            error = caught
        say(str(error) if isinstance(error, InterruptedRun) else f"error: {error}")
        return ctx.exit(error.exit_code)


def variable_options(command: Command) -> Command:
    """The nine variables and the dev root, and --strict for what is missing in the homes."""
    strict = click.option("--strict", is_flag=True, help="What is missing in a home is an error.")
    return only_variable_options(strict(command))


def only_variable_options(command: Command) -> Command:
    """The nine variables and the dev root, where what is missing in a home is told otherwise."""
    return _variable_options(command, VARIABLES)


def simulating_options(command: Command) -> Command:
    """The nine variables and the dev root, of a command that has the simulator without a home."""
    default = "the simulator"
    own = [replace(v, default=default) if v.name == "SWITCHML_HOME" else v for v in VARIABLES]
    return _variable_options(command, own)


def _variable_options(command: Command, variables: Sequence[Variable]) -> Command:
    for variable in (DEV_ROOT, *reversed(variables)):
        command = _option(variable)(command)
    return command


def _option(variable: Variable) -> Callable[[Command], Command]:
    text = variable.help[0].upper() + variable.help[1:]
    text = f"{text}. [env: {variable.name}; default: {variable.default}]"
    if variable.boolean:
        names = f"{variable.flag}/--no-{variable.field}"
        return click.option(names, default=None, help=text)
    flag = DEV_ROOT_FLAG if variable is DEV_ROOT else variable.flag
    return click.option(flag, type=click.Path(), metavar="DIR", help=text)


def say(line: str) -> None:
    """One line for people."""
    click.echo(line, err=True)


def print_json(data: object) -> None:
    """Data for scripts."""
    click.echo(json.dumps(data, indent=2))


def read_options(given: dict[str, Any]) -> Options:
    """The options of this run.

    Raises:
        OptionsError: one is refused.
    """
    try:
        cwd = os.getcwd()
    except FileNotFoundError:
        cwd = None
    return resolve(given, os.environ, cwd)


def warn(options: Options, *, strict: bool) -> list[str]:
    """Tells what is missing in the homes.

    Raises:
        OptionsError: something is, and `strict` is set.
    """
    missing = homes.missing(options)
    if strict and missing:
        raise OptionsError("\n".join([*missing, "install what is missing, or drop --strict"]))
    for line in missing:
        say(f"warning: {line}")
    return missing


def known_pins(pytorch: str | None) -> tuple[tuple[Pin, ...], Pin | None]:
    """All pins, and the one that the user named.

    Raises:
        OptionsError: there is no such pin.
    """
    shipped = pins.shipped()
    if pytorch is None:
        return shipped, None
    wanted = pins.find(pytorch, shipped)
    return (shipped if wanted in shipped else (*shipped, wanted)), wanted


def chosen_pin(pytorch: str | None) -> Pin:
    """The pin that the user named, else the default.

    Raises:
        OptionsError: there is no such pin.
    """
    known, wanted = known_pins(pytorch)
    return wanted or pins.find(pins.DEFAULT, known)


def say_all(lines: Iterable[str]) -> None:
    """Lines for people."""
    for line in lines:
        say(line)
