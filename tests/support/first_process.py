"""Programs as process 1, as in a container: only signals with a handler end it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.waiting import captured


def first(command: Sequence[str | Path]) -> list[str]:
    """Return a command that runs another one as process 1, and ends with its exit code."""
    mapped = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    unshare = ["unshare", *mapped, "--pid", "--fork", "--mount-proc", "--kill-child"]
    if captured([*unshare, "true"]).returncode != 0:
        pytest.skip("this system allows no namespace of processes")
    return [*unshare, *map(str, command)]
