"""Numbers among the options: only those that can be meant."""

from __future__ import annotations

import math
from typing import Any

import click

_DAY = 86_400.0


class FiniteRange(click.FloatRange):
    """A range of floats without nan, which no bound refuses, and without inf."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:  # as in click
        """Refuses what is no finite number of the range."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


SECONDS = FiniteRange(min=1, max=_DAY)
"""Limit in seconds, of a day at most."""
