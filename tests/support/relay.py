"""A relay that holds back what passes through it: payload/relay.py."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PROGRAM = Path(__file__).parents[1] / "payload" / "relay.py"


@contextlib.contextmanager
def delaying(address: str, seconds: float) -> Iterator[int]:
    """Port of 127.0.0.1 from which bytes come to an address, and back, after so many seconds."""
    with subprocess.Popen(
        [sys.executable, PROGRAM, address, str(seconds)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.kill()
