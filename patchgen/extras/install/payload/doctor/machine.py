"""Looks at this host: huge pages, the card's link and MTU, clocks of the cores."""

import array
import fcntl
import os
import re
import socket
import struct
from typing import Iterator, NamedTuple

from .config import eal_options

GOOD, DOUBTFUL, BAD = "ok", "doubtful", "bad"

_HEADERS = 38  # bytes of a packet beside its elements, without Ethernet's
_SIOCGIFFLAGS, _RUNNING, _SIOCGIFMTU = 0x8913, 0x40, 0x8921
_SIOCGIFCONF, _ROOM, _ENTRY = 0x8912, 16384, 40
_CARD = re.compile(r"(?:[0-9a-f]{4}:)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", re.IGNORECASE)


class Finding(NamedTuple):
    """Finding: good, doubtful or bad, and words."""

    state: str
    words: str


def look(values: "dict[str, str]", *, simulator: bool, root: str = "/") -> "Iterator[Finding]":
    """Looks at what the backend of a configuration needs.

    Args:
        values: of the configuration.
        simulator: True where the switch is simulated, which needs nothing.
        root: directory of sys and proc.
    """
    backend = values.get("general.backend", "dpdk")
    if simulator or backend not in {"dpdk", "rdma"}:
        return
    options = eal_options(values) if backend == "dpdk" else []
    if "--no-huge" not in options:
        yield look_at_pages(root)
    interface = _interface(values, options) if backend == "dpdk" else ""
    numel = values.get("general.packet_numel", "256")
    if interface and numel.isdecimal():  # the delegate refuses another value
        yield from look_at_link(interface, int(numel))
    yield from _look_at_card(options, root)
    yield from _look_at_clocks(root)


def look_at_pages(root: str = "/") -> Finding:
    """Looks for huge pages that are free, and for a hugetlbfs to get them from."""
    directory = os.path.join(root, "sys/kernel/mm/hugepages")
    free = {}
    try:
        for name in os.listdir(directory):
            size = int(name[len("hugepages-") : -len("kB")])
            free[size] = int(_read(os.path.join(directory, name, "free_hugepages")) or 0)
    except (OSError, ValueError):
        return Finding(BAD, "this kernel has no huge pages")
    mounts = _read(os.path.join(root, "proc/mounts"))
    if not any(free.values()):
        return Finding(BAD, "no huge page is free")
    if not any(line.split()[2:3] == ["hugetlbfs"] for line in mounts.splitlines()):
        return Finding(BAD, "no hugetlbfs is mounted")
    pages = ", ".join(f"{free[size]} of {size} kB" for size in sorted(free) if free[size])
    return Finding(GOOD, f"huge pages free: {pages}")


def look_at_link(interface: str, numel: int) -> "Iterator[Finding]":
    """Looks at the link of an interface, and whether packets fit through it."""
    try:
        mtu, running = read_link(interface)
    except OSError:
        yield Finding(BAD, f"there is no interface {interface}")
        return
    if not running:
        yield Finding(BAD, f"{interface} has no link")
    needed = _HEADERS + 4 * numel
    if mtu < needed:
        yield Finding(BAD, f"the MTU of {interface} is {mtu}, packets need {needed}")
    else:
        yield Finding(GOOD, f"{interface}: MTU {mtu}")


def read_link(interface: str) -> "tuple[int, bool]":
    """MTU of an interface of this network namespace, which sysfs may not show, and its link.

    Raises:
        OSError: there is none.
    """
    wanted = struct.pack("16s16x", interface.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        mtu = struct.unpack_from("i", fcntl.ioctl(asked, _SIOCGIFMTU, wanted), 16)[0]
        flags = struct.unpack_from("H", fcntl.ioctl(asked, _SIOCGIFFLAGS, wanted), 16)[0]
    return int(mtu), bool(flags & _RUNNING)


def _look_at_card(options: "list[str]", root: str) -> "Iterator[Finding]":
    """Looks for the card that DPDK's options name, and its driver."""
    for option, value in zip(options, options[1:]):
        found = _CARD.match(value) if option in {"-a", "-w", "--allow"} else None
        if not found:
            continue
        address = value.split(",")[0]
        address = address if address.count(":") == 2 else "0000:" + address  # noqa: PLR2004
        place = os.path.join(root, "sys/bus/pci/devices", address)
        driver = os.path.basename(os.path.realpath(os.path.join(place, "driver")))
        if not os.path.isdir(place):
            yield Finding(BAD, f"there is no card {address}")
        elif driver == "driver":
            yield Finding(BAD, f"the card {address} has no driver")
        else:
            yield Finding(GOOD, f"card {address}: {driver}")


def _look_at_clocks(root: str) -> "Iterator[Finding]":
    slow = []
    for core in sorted(os.sched_getaffinity(0)):
        path = f"sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor"
        if _read(os.path.join(root, path)) not in {"", "performance"}:
            slow.append(str(core))
    if slow:
        cores = ", ".join(slow[:4]) + (", ..." if len(slow) > 4 else "")  # noqa: PLR2004
        yield Finding(DOUBTFUL, f"cores {cores} are not governed by performance")


def _interface(values: "dict[str, str]", options: "list[str]") -> str:
    """Interface of the card; empty where it cannot be told, or a software port has none."""
    address = values.get("backend.dpdk.worker_ip", "")
    if address.startswith("interface:"):
        return address[len("interface:") :]
    for option in options:
        found = re.search(r"iface=([^, ]+)", option)
        if found:
            return found.group(1)
    return next((name for name, own in _addresses() if own == address), "")


def _addresses() -> "list[tuple[str, str]]":
    """IPv4 addresses of this host, with their interfaces."""
    room = array.array("B", bytes(_ROOM))
    place = room.buffer_info()[0]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        answer = fcntl.ioctl(asked, _SIOCGIFCONF, struct.pack("iL", _ROOM, place))
    size = struct.unpack("iL", answer)[0]
    entries = [room.tobytes()[at : at + _ENTRY] for at in range(0, size, _ENTRY)]
    return [(one[:16].split(b"\0")[0].decode(), socket.inet_ntoa(one[20:24])) for one in entries]


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
