"""Seeded inputs for servers: each is made from its number, and so is the same on every machine."""

from __future__ import annotations

import os
import random

INPUTS = int(os.environ.get("SWITCHML_FUZZ_INPUTS", "1500"))
"""Inputs for each listener."""
FIRST = int(os.environ.get("SWITCHML_FUZZ_FIRST", "0"))
"""Number of the first input, from which it is made."""
NUMBERS = [0, 1, 2, 3, 31, 32, 33, 255, 2**16 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1]
"""Numbers at limits."""


def spoil(rng: random.Random, octets: bytes) -> bytes:
    """Overwrite, cut, repeat or insert octets, at random places or nowhere."""
    while octets and rng.random() < 0.3:
        at = rng.randrange(len(octets))
        before, after = octets[:at], octets[at:]
        more = rng.randbytes(rng.randrange(40))
        octets = before + rng.choice([rng.randbytes(1) + after[1:], b"", after * 2, more + after])
    return octets
