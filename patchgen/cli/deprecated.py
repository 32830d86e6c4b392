"""Old spellings, which work for one release and name the new one."""

from __future__ import annotations

import functools
from typing import Any, Callable

import click
from click.core import ParameterSource

from patchgen.cli.console import say

Command = Callable[..., Any]
Decorator = Callable[[Command], Command]


class _HiddenArgument(click.Argument):
    """Argument that help does not list."""

    hidden = True

    def get_usage_pieces(self, ctx: click.Context) -> list[str]:  # as in click
        """Leaves the argument out of the usage line."""
        return []


def warn(old: str, new: str) -> None:
    """Names the new spelling of what the user wrote."""
    path = click.get_current_context().command_path
    say(f"warning: {path} {old} is deprecated and will be removed; use {path} {new}")


def argument(of: str, metavar: str, *, required: bool = False, **attributes: Any) -> Decorator:
    """Decorator for a command whose -o was an argument.

    Args:
        of: the option's parameter.
        metavar: of the argument and the option.
        required: refuses a command line with neither of them.
        attributes: of the argument.
    """
    add = click.argument(f"old_{of}", cls=_HiddenArgument, required=False, **attributes)
    return _spelling(add, of, metavar, f"-o {metavar}", required=required)


def option(old: str, of: str, new: str, **attributes: Any) -> Decorator:
    """Decorator for a command with an option that had another name.

    Args:
        old: that name.
        of: the option's parameter.
        new: name of the option.
        attributes: of the option.
    """
    add = click.option(old, f"old_{of}", hidden=True, **attributes)
    return _spelling(add, of, old, new)


def _spelling(add: Decorator, of: str, old: str, new: str, *, required: bool = False) -> Decorator:
    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def wrapped(*args: Any, **given: Any) -> Any:
            value = given.pop(f"old_{of}")
            if value is not None:
                source = click.get_current_context().get_parameter_source(of)
                if source is ParameterSource.COMMANDLINE:
                    raise click.UsageError(f"{old} is the old spelling of {new}; drop one of them")
                warn(old, new)
                given[of] = value
            elif required and given[of] is None:
                raise click.UsageError("Missing option '-o' / '--output'.")
            return command(*args, **given)

        return add(wrapped)

    return decorate
