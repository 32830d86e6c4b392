"""Seeded events, and when they happen."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

KILL_SWITCH = "the switch is killed"
STOP_SWITCH = "the switch is stopped"
KILL_CONTROLLER = "the controller is killed"
LOSE_ALL = "all packets are lost"
LOSE_SOME = "5 % of the packets are lost"
STOP_RANK = "a rank is stopped"
KILL_RANK = "a rank is killed"

SECONDS = {
    KILL_SWITCH: (0.0, 4.0),
    STOP_SWITCH: (0.1, 5.0),
    KILL_CONTROLLER: (0.0, 4.0),
    LOSE_ALL: (10.0, 10.0),
    LOSE_SOME: (2.0, 5.0),
    STOP_RANK: (5.0, 5.0),
    KILL_RANK: (0.0, 0.0),
}
"""Seconds that each kind lasts, at least and at most."""
_MOMENT = 0.6  # seconds, of some twenty steps, or of the ranks' start
_EARLY = 0.1  # share of the events that may come while the ranks start


@dataclass(frozen=True)
class Event:
    """A failure."""

    kind: str
    early: bool
    """Comes while the ranks start, else while they train."""
    moment: float
    """Seconds after the ranks begin to start, or after they are found to delegate."""
    seconds: float
    """Seconds that it lasts."""
    rank: float
    """Which rank it concerns, from 0 to before 1."""

    def __str__(self) -> str:
        return f"{self.kind} for {self.seconds:.1f} s" if self.seconds else self.kind


def plan(seed: int, count: int, kinds: Sequence[str], scale: float = 1.0) -> Iterator[Event]:
    """Yield events, as many of each kind; those of a seed are always the same."""
    chance = random.Random(seed)
    bag: list[str] = []
    for _ in range(count):
        if not bag:
            bag = chance.sample(kinds, len(kinds))
        kind = bag.pop()
        low, high = SECONDS[kind]
        yield Event(
            kind=kind,
            early=chance.random() < _EARLY,
            moment=chance.uniform(0, _MOMENT),
            seconds=scale * chance.uniform(low, high),
            rank=chance.random(),
        )
