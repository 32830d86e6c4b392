"""What this machine has for a build: cores and memory."""

from __future__ import annotations

import contextlib
import os
import re

_CGROUP = "/sys/fs/cgroup"
_GIB = 1 << 30


def cores() -> int:
    """Those that this process may run on."""
    return len(os.sched_getaffinity(0))


def memory() -> int:
    """Bytes that can be had without swapping, within the limit of the control group."""
    with open("/proc/meminfo", encoding="ascii") as file:
        found = re.search(r"^MemAvailable:\s*(\d+) kB", file.read(), re.MULTILINE)
    limits = [int(found[1]) * 1024] if found else []
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        with contextlib.suppress(OSError, ValueError):  # no such limit
            limits.append(_number(limit) - _number(used))
    return max(0, min(limits)) if limits else 0


def _number(name: str) -> int:
    with open(os.path.join(_CGROUP, name), encoding="ascii") as file:
        return int(file.read())


def jobs(each: float) -> int:
    """How many compilers fit: one for a core, as far as the memory goes.

    Args:
        each: GiB that one of them takes.
    """
    fit = int(memory() / (each * _GIB)) if each else cores()
    return max(1, min(cores(), fit))
