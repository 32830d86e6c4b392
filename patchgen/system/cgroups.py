"""The memory that the control groups of this process leave it; of version 1 or 2, also nested."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Files(NamedTuple):
    """Files of one version: limits, use, and the part of it that the kernel can take back."""

    limits: tuple[str, ...]
    used: str
    cache: tuple[str, ...]
    """Lines of memory.stat: pages of files, which are dropped when memory is asked for."""


_V1 = _Files(
    ("memory.limit_in_bytes",),
    "memory.usage_in_bytes",
    ("total_active_file", "total_inactive_file"),
)
_V2 = _Files(
    ("memory.max", "memory.high"),
    "memory.current",
    ("active_file", "inactive_file", "slab_reclaimable"),
)


def memory(root: str = "/") -> int | None:
    """Bytes that this process can still allocate within the limits of all its groups.

    Args:
        root: where proc is.

    Returns:
        None where no group has a limit.
    """
    left = [_left(directory, files) for directory, files in _groups(root)]
    return min((one for one in left if one is not None), default=None)


def _groups(root: str) -> Iterator[tuple[str, _Files]]:
    """The directory of our group and those above it, as far as they are mounted."""
    with contextlib.suppress(OSError, ValueError):
        own = dict(_own(root))
        with open(os.path.join(root, "proc/self/mountinfo"), encoding="utf-8") as file:
            mounts = [line.split() for line in file]
        for fields in mounts:
            kind, options = fields[fields.index("-") + 1], fields[-1].split(",")
            controller = "memory" if kind == "cgroup" and "memory" in options else ""
            if kind == "cgroup2" or controller:
                top, mounted = fields[3], os.path.join(root, fields[4].lstrip("/"))
                path = os.path.relpath(own.get(controller, top), top)
                parts = [] if path == "." or path.startswith("..") else path.split("/")
                for depth in range(len(parts) + 1):
                    directory = os.path.normpath(os.path.join(mounted, *parts[:depth]))
                    yield directory, _V1 if controller else _V2


def _own(root: str) -> Iterator[tuple[str, str]]:
    """Our group by controller; version 2 has one for all of them, which has no name."""
    with open(os.path.join(root, "proc/self/cgroup"), encoding="utf-8") as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            yield from ((name, path) for name in controllers.split(","))


def _left(directory: str, files: _Files) -> int | None:
    limits = []
    for name in files.limits:
        with contextlib.suppress(OSError, ValueError):  # "max": none
            limits.append(_number(os.path.join(directory, name)))
    if not limits:
        return None
    try:
        used = _number(os.path.join(directory, files.used))
        with open(os.path.join(directory, "memory.stat"), encoding="ascii") as file:
            stat = dict(line.split(None, 1) for line in file)
        cache = sum(int(stat.get(name, 0)) for name in files.cache)
    except (OSError, ValueError):
        used = cache = 0
    return min(limits) - max(0, used - cache)


def _number(path: str) -> int:
    with open(path, encoding="ascii") as file:
        return int(file.read())
