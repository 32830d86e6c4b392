"""Types of path options, which refuse a bad path before the command begins."""

from __future__ import annotations

from typing import Any, Callable

import click

from patchgen.errors import OptionsError
from patchgen.system import outputs


class Named(click.Path):
    """Path that is not empty, as the unset variable of a script would be.

    What cannot be read is left to the reader, whose error says more than click's.
    """

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{"readable": False, **attributes})

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:  # as in click
        """Refuse an empty path.

        Raises:
            OptionsError: it is empty.
        """
        if not value and not (ctx and ctx.resilient_parsing):
            raise OptionsError(_describe_empty(param))
        return super().convert(value, param, ctx)


def _describe_empty(param: Any) -> str:
    if isinstance(param, click.Option):
        return f"{'/'.join(param.opts)} is empty; name one, or drop the option"
    return f"{param.human_readable_name if param else 'a path'} is empty; name one"


class _Output(Named):
    """Path that the command will write to; tried before the work begins."""

    def __init__(self, trial: Callable[[str], None]) -> None:
        super().__init__(allow_dash=True)
        self._trial = trial

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:  # as in click
        path = super().convert(value, param, ctx)
        if path != "-" and not (ctx and ctx.resilient_parsing):
            self._trial(path)
        return path


OUTPUT_FILE = _Output(outputs.try_file)
OUTPUT_DIRECTORY = _Output(outputs.try_directory)


def output_option(
    metavar: str,
    text: str,
    *,
    kind: click.Path = OUTPUT_DIRECTORY,
    name: str = "output",
    **attributes: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds -o and --output to a command, whose parameter is `name`."""
    names = ("-o", "--output", name)
    return click.option(*names, type=kind, metavar=metavar, help=text, **attributes)
