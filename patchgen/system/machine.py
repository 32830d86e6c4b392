"""Cores and memory of this machine, for a build."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator

_GIB = 1 << 30
_LIMITS = ("memory.max", "memory.high")
_CACHE = ("active_file", "inactive_file", "slab_reclaimable")
"""Lines of memory.stat about file pages, which the kernel drops when memory is needed."""


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def memory(root: str = "/") -> int:
    """Return the bytes that can be allocated without swapping, within control group limits."""
    left = [_available(root), *map(_left, _groups(root))]
    return max(0, min(one for one in left if one is not None))


def jobs(each: float) -> int:
    """Return the number of parallel compilers, by cores and by memory (`each`, in GiB)."""
    fit = int(memory() / (each * _GIB)) if each else cores()
    return max(1, min(cores(), fit))


def _available(root: str) -> int:
    """Return the bytes that the kernel calls available; those that are free if it has no such."""
    with contextlib.suppress(OSError), open(os.path.join(root, "proc/meminfo"), "rb") as file:
        found = re.search(rb"^MemAvailable:\s*(\d+) kB", file.read(), re.MULTILINE)
        if found:
            return int(found[1]) * 1024
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _groups(root: str) -> Iterator[str]:
    """Yield the mounted directories of this process's control group and its parents."""
    with contextlib.suppress(OSError, ValueError):
        with open(os.path.join(root, "proc/self/cgroup"), encoding="utf-8") as file:
            own = dict(line.rstrip("\n").split("::", 1) for line in file if "::" in line)
        with open(os.path.join(root, "proc/self/mountinfo"), encoding="utf-8") as file:
            mounts = [line.split() for line in file]
        for fields in mounts:
            if fields[fields.index("-") + 1] == "cgroup2":
                top, mounted = fields[3], os.path.join(root, fields[4].lstrip("/"))
                path = os.path.relpath(own.get("0", top), top)
                parts = [] if path == "." or path.startswith("..") else path.split("/")
                for depth in range(len(parts) + 1):
                    yield os.path.normpath(os.path.join(mounted, *parts[:depth]))


def _left(directory: str) -> int | None:
    """Return the bytes that a group can still allocate; None without a limit."""
    limits = []
    for name in _LIMITS:
        with contextlib.suppress(OSError, ValueError):  # "max" is no limit
            limits.append(_number(os.path.join(directory, name)))
    if not limits:
        return None
    try:
        used = _number(os.path.join(directory, "memory.current"))
        with open(os.path.join(directory, "memory.stat"), encoding="ascii") as file:
            stat = dict(line.split(None, 1) for line in file)
        cache = sum(int(stat.get(name, 0)) for name in _CACHE)
    except (OSError, ValueError):
        used = cache = 0
    return min(limits) - max(0, used - cache)


def _number(path: str) -> int:
    with open(path, encoding="ascii") as file:
        return int(file.read())
