"""Huge pages: how many a process can get, and how many it needs."""

import os
import re
from typing import Iterator

from .config import read_number, values_of
from .finding import BAD, DOUBTFUL, GOOD, Finding, read

_MIB = 1 << 20
_BUFFER = 2368  # bytes of a packet's buffer in a pool, at least
_SIZES = "sys/kernel/mm/hugepages"
_FILES = {"--legacy-mem", "--huge-unlink=never"}  # options of DPDK
_UNITS = {"K": 1, "M": 1 << 10, "G": 1 << 20}  # kB
_LIMITS = (("max", "current"), ("rsvd.max", "rsvd.current"), ("limit_in_bytes", "usage_in_bytes"),
           ("rsvd.limit_in_bytes", "rsvd.usage_in_bytes"))  # fmt: skip
_ENDLESS = 1 << 62


def needed_bytes(values: "dict[str, str]", options: "list[str]") -> int:
    """Return the least number of bytes that the library of one rank allocates."""
    if values.get("general.backend", "dpdk") == "rdma":
        packet = 4 * read_number(values, "general.packet_numel", 256)
        return packet * read_number(values, "general.max_outstanding_packets", 256)
    threads = read_number(values, "general.num_worker_threads", 4)
    pools = 2 * threads * read_number(values, "backend.dpdk.pool_size", 1 << 18) * _BUFFER
    memory = ",".join(values_of(options, "-m", "--socket-mem"))
    return max(pools, _MIB * sum(int(one) for one in memory.split(",") if one.isdecimal()))


def look_at_pages(
    options: "list[str] | None", needed: int, node: str, root: str = "/"
) -> "Iterator[Finding]":
    """Check whether enough huge pages are free for this process.

    Args:
        options: options of DPDK, which takes pages of all sizes; None for pages of the default
            size.
        needed: bytes.
        node: NUMA node of the card; empty or negative if not known.
        root: directory of sys and proc.
    """
    try:
        names = os.listdir(os.path.join(root, _SIZES))
    except OSError:
        yield Finding(BAD, "this kernel has no huge pages")
        return
    sizes = sorted(int(name[len("hugepages-") : -len("kB")]) for name in names)
    free = {size: _free(root, _SIZES, size) for size in sizes}
    if options is None:
        free = {size: free[size] for size in sizes if size == _usual_size(root)}
    if not any(free.values()):
        yield Finding(BAD, "no huge page is free")
        return
    why, usable = [], {}
    for size in (size for size in free if free[size]):
        obstacle = "" if options is None else _obstacle(options, size, root)
        room = _room(root, size) // (size << 10)
        if obstacle:
            why.append(obstacle)
            continue
        if room < free[size]:
            why.append(f"the control group leaves {room} of {size} kB")
        usable[size] = min(room, free[size])
    total = sum(size * count for size, count in usable.items()) << 10
    if not total or total < needed:
        if total:
            pages = ", ".join(f"{count} of {size} kB" for size, count in free.items() if count)
            why.append(f"huge pages free: {pages}; {-(-needed // _MIB)} MiB are needed")
        yield Finding(BAD, "; ".join(why))
        return
    pages = ", ".join(f"{count} of {size} kB" for size, count in usable.items() if count)
    yield Finding(GOOD, f"huge pages free: {pages}")
    own = f"sys/devices/system/node/node{node}/hugepages"
    if os.path.isdir(os.path.join(root, own)) and not any(_free(root, own, s) for s in usable):
        yield Finding(DOUBTFUL, f"no huge page is free on node {node}, where the card is")


def _usual_size(root: str) -> int:
    found = re.search(r"Hugepagesize:\s*(\d+)", read(root, "proc/meminfo"))
    return int(found[1]) if found else 0


def _free(root: str, directory: str, size: int) -> int:
    return int(read(root, f"{directory}/hugepages-{size}kB/free_hugepages") or 0)


def _obstacle(options: "list[str]", size: int, root: str) -> str:
    """Return why DPDK cannot get pages of a size; empty if it can.

    DPDK maps its pages as files only with the options of `_FILES`; else the delegate adds
    --in-memory.
    """
    if not {*options} & _FILES:
        return ""
    wanted = [os.path.normpath(path) for path in values_of(options, "--huge-dir")]
    why = f"no hugetlbfs is mounted for pages of {size} kB"
    for _, point, kind, given in _mounts(root):
        found = re.search(r"pagesize=(\d+)([KMG])", given)
        own = int(found[1]) * _UNITS[found[2]] if found else _usual_size(root)
        if kind != "hugetlbfs" or own != size or (wanted and point not in wanted):
            continue
        place = os.path.join(root, point.lstrip("/"))
        if "ro" not in given.split(",") and os.access(place, os.W_OK):
            return ""
        why = f"the hugetlbfs at {point} cannot be written"
    return why


def _mounts(root: str) -> "list[list[str]]":
    """Return the device, directory, type and options of each mount."""
    return [line.split()[:4] for line in read(root, "proc/mounts").splitlines()]


def _room(root: str, size: int) -> int:
    """Return the bytes that the control groups of this process leave for pages of a size."""
    unit = next(unit for unit in "GMK" if size >= _UNITS[unit])
    name = f"hugetlb.{size // _UNITS[unit]}{unit}B"
    paths = {}  # type: dict[str, str]
    for line in read(root, "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        paths.update((one, path) for one in controllers.split(","))
    left = [_ENDLESS]
    for _, point, kind, given in _mounts(root):
        controller = {"cgroup2": "", "cgroup": "hugetlb"}.get(kind)
        if controller not in paths or controller not in {"", *given.split(",")}:
            continue
        group = point + paths[controller].rstrip("/")
        while len(group) >= len(point):
            for limit, usage in _LIMITS:
                most = read(root, f"{group[1:]}/{name}.{limit}")
                if most.isdecimal():
                    left.append(int(most) - int(read(root, f"{group[1:]}/{name}.{usage}") or 0))
            group = os.path.dirname(group)
    return max(min(left), 0)
