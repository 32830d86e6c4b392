"""A thing that must hold, as every command shows it that verifies something."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """A thing that must hold, what was found, and why it does not hold."""

    name: str
    problems: tuple[str, ...] = ()
    """Problems and what to do about them, a line each; none where it holds."""
    found: str = ""
    """Text shown behind the name: what is there."""
    required: bool = True
    """True where the whole does not hold without it; else it is only shown."""

    @property
    def ok(self) -> bool:
        """True where it holds."""
        return not self.problems


def hold(checks: Sequence[Check]) -> bool:
    """True where all that is required holds."""
    return all(check.ok for check in checks if check.required)
