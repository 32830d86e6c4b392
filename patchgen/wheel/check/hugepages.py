"""Row about the memory that a network card writes to."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from patchgen.checks import Check

if TYPE_CHECKING:
    from patchgen.client.config import Config

_NAME = "run: hugepages"
_RESERVE = "as root: echo 2048 > /proc/sys/vm/nr_hugepages"


def check(config: Config | None, root: str = "/") -> Check:
    """Whether pages are free, and a hugetlbfs is mounted to get them from.

    Args:
        config: of a run; None where there is none that can be used.
        root: where proc and sys are.
    """
    if config is not None and config.without_hugepages:
        return Check(_NAME, (), "none needed: switchml.cfg has --no-huge", required=False)
    directory = os.path.join(root, "sys/kernel/mm/hugepages")
    free: dict[int, int] = {}  # pages by kB
    try:
        for name in os.listdir(directory):
            size = int(name.removeprefix("hugepages-").removesuffix("kB"))
            with open(os.path.join(directory, name, "free_hugepages"), encoding="ascii") as file:
                free[size] = int(file.read())
        with open(os.path.join(root, "proc/mounts"), encoding="utf-8", errors="replace") as file:
            mounted = any(line.split()[2:3] == ["hugetlbfs"] for line in file)
    except (OSError, ValueError):
        return Check(_NAME, (f"this kernel has none; {_RESERVE}",), required=False)
    found = ", ".join(f"{free[size]} of {size} kB" for size in sorted(free) if free[size])
    wrong = [] if found else [f"none is free; {_RESERVE}"]
    if not mounted:
        wrong.append("no hugetlbfs; as root: mount -t hugetlbfs none /dev/hugepages")
    return Check(_NAME, tuple(wrong), f"{found} free" if found else "", required=False)
