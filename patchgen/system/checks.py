"""Result of one check, as all verifying commands show it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """Result of one check: its name, what was found, and its problems."""

    name: str
    problems: tuple[str, ...] = ()
    """Problems and advice, a line each; empty if the check passed."""
    found: str = ""
    """Text behind the name: what was found."""
    required: bool = True
    """Whether a failure makes the whole fail; otherwise it is only shown."""

    @property
    def ok(self) -> bool:
        """Whether the check passed."""
        return not self.problems


def find_failed(checks: Iterable[Check]) -> list[Check]:
    """Return the required checks that did not pass."""
    return [check for check in checks if check.required and not check.ok]
