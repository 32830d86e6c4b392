"""Paths among the options: what is refused before a command begins."""

from __future__ import annotations

from typing import Any, Callable

import click

from patchgen.system import outputs


class Named(click.Path):
    """A path that is not empty, as that of a variable of a script that was not set."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:  # as in click
        """Refuses what names nothing."""
        if not value:
            self.fail("it is empty; name one, or drop the option", param, ctx)
        return super().convert(value, param, ctx)


class _Output(Named):
    """A path that a command writes, tried before its work begins."""

    def __init__(self, trial: Callable[[str], None]) -> None:
        super().__init__(allow_dash=True)
        self._trial = trial

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:  # as in click
        """Refuses what cannot be written."""
        path = super().convert(value, param, ctx)
        if path != "-" and not (ctx and ctx.resilient_parsing):
            self._trial(path)
        return path


OUTPUT_FILE = _Output(outputs.try_file)
OUTPUT_DIRECTORY = _Output(outputs.try_directory)
