"""One thing that must hold, as every command that verifies something tells it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Check:
    """A thing that must hold, what was found, and why it does not hold."""

    name: str
    problems: tuple[str, ...] = ()
    """What is wrong and what to do about it, a line each; none where it holds."""
    found: str = ""
    """What is there, shown behind the name."""
    required: bool = True
    """Without it the whole does not hold; else it is told only."""

    @property
    def ok(self) -> bool:
        """It holds."""
        return not self.problems


def hold(checks: Sequence[Check]) -> bool:
    """Whether all that is required holds."""
    return all(check.ok for check in checks if check.required)
