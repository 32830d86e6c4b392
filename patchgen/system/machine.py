"""Cores and memory of this machine, for a build."""

from __future__ import annotations

import os
import re

from patchgen.system import cgroups

_GIB = 1 << 30


def cores() -> int:
    """Number of cores that this process may run on."""
    return len(os.sched_getaffinity(0))


def memory(root: str = "/") -> int:
    """Bytes that can be allocated without swapping, within the limits of the control groups.

    Args:
        root: where proc is.
    """
    with open(os.path.join(root, "proc/meminfo"), encoding="ascii") as file:
        found = re.search(r"^MemAvailable:\s*(\d+) kB", file.read(), re.MULTILINE)
    left = [int(found[1]) * 1024 if found else None, cgroups.memory(root)]
    return max(0, min((one for one in left if one is not None), default=0))


def jobs(each: float) -> int:
    """Number of compilers to run at once: one for a core, as far as the memory goes.

    Args:
        each: GiB that one of them takes.
    """
    fit = int(memory() / (each * _GIB)) if each else cores()
    return max(1, min(cores(), fit))
