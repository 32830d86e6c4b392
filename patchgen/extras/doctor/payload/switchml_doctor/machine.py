"""Checks of this host: memory, the card with its link and MTU, and CPU frequency governors."""

import fcntl
import os
import re
import resource
import socket
import struct
from typing import Iterator

from .address import addresses
from .config import eal_options, read_number, values_of
from .finding import BAD, DOUBTFUL, GOOD, Finding, read
from .pages import look_at_pages, needed_bytes

_HEADERS = 38  # bytes of a packet's headers, without Ethernet's
_SIOCGIFFLAGS, _RUNNING, _SIOCGIFMTU = 0x8913, 0x40, 0x8921
_IPC_LOCK = 14  # the capability to lock memory without a limit
_LOCKING = {"mlx4_core", "mlx5_core", "vfio-pci"}  # drivers that lock what the card may access
_CARD = re.compile(r"(?:[0-9a-f]{4}:)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", re.IGNORECASE)


def look(
    values: "dict[str, str]", *, simulator: bool, ranks: int = 1, root: str = "/"
) -> "Iterator[Finding]":
    """Check what the backend of a configuration needs; a simulator needs nothing.

    `ranks` is the number of ranks on this host, and `root` the directory of sys and proc.
    """
    backend = values.get("general.backend", "dpdk")
    if simulator or backend not in {"dpdk", "rdma"}:
        return
    dpdk = backend == "dpdk"
    options = eal_options(values) if dpdk else []
    interface = _interface(values, options) if dpdk else ""
    cards = _cards(options, root)
    places = [f"sys/bus/pci/devices/{card}" for card in cards]
    places += [f"sys/class/net/{interface}/device"] if interface else []
    device = values.get("backend.rdma.device_name", "mlx5_0")
    places += [] if dpdk else [f"sys/class/infiniband/{device}/device"]
    needed = needed_bytes(values, options)
    if "--no-huge" not in options:
        node = next(filter(None, (read(root, f"{place}/numa_node") for place in places)), "")
        yield from look_at_pages(options if dpdk else None, ranks * needed, node, root)
    if not dpdk or _LOCKING & {*cards.values()}:
        yield from _look_at_lock(needed, root)
    numel = read_number(values, "general.packet_numel", 256)
    if interface and numel:
        yield from look_at_link(interface, numel)
    for card, driver in cards.items():
        if driver:
            yield Finding(GOOD, f"card {card}: {driver}")
        elif os.path.isdir(os.path.join(root, "sys/bus/pci/devices", card)):
            yield Finding(BAD, f"the card {card} has no driver")
        else:
            yield Finding(BAD, f"there is no card {card}")
    yield from _look_at_clocks(root)


def _look_at_lock(needed: int, root: str) -> "Iterator[Finding]":
    """Check whether this process may lock the memory that the card accesses."""
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    able = re.search(r"^CapEff:\s*(\w+)", read(root, "proc/self/status"), re.MULTILINE)
    free = limit == resource.RLIM_INFINITY or (able and int(able[1], 16) >> _IPC_LOCK & 1)
    if not free and limit < needed:
        yield Finding(BAD, f"{limit >> 10} kB of memory may be locked, {needed >> 10} are needed")


def look_at_link(interface: str, numel: int) -> "Iterator[Finding]":
    """Check whether an interface has a link, and whether packets fit its MTU."""
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
    """Return the MTU of an interface, and whether it has a link.

    Asks the kernel, because sysfs may show another network namespace.

    Raises:
        OSError: the interface does not exist.
    """
    wanted = struct.pack("16s16x", interface.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        mtu = struct.unpack_from("i", fcntl.ioctl(probe, _SIOCGIFMTU, wanted), 16)[0]
        flags = struct.unpack_from("H", fcntl.ioctl(probe, _SIOCGIFFLAGS, wanted), 16)[0]
    return int(mtu), bool(flags & _RUNNING)


def _cards(options: "list[str]", root: str) -> "dict[str, str]":
    """Return the drivers of the cards in DPDK's options, by address; empty without a driver."""
    found = {}
    for value in values_of(options, "-a", "-w", "--allow"):
        if _CARD.match(value):
            address = value.split(",")[0]
            address = address if address.count(":") == 2 else "0000:" + address  # noqa: PLR2004
            driver = os.path.join(root, "sys/bus/pci/devices", address, "driver")
            found[address] = os.path.basename(os.path.realpath(driver))
            found[address] *= os.path.islink(driver)
    return found


def _look_at_clocks(root: str) -> "Iterator[Finding]":
    slow = []
    for core in sorted(os.sched_getaffinity(0)):
        path = f"sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor"
        if read(root, path) not in {"", "performance"}:
            slow.append(str(core))
    if slow:
        cores = ", ".join(slow[:4]) + (", ..." if len(slow) > 4 else "")  # noqa: PLR2004
        yield Finding(DOUBTFUL, f"cores {cores} are not governed by performance")


def _interface(values: "dict[str, str]", options: "list[str]") -> str:
    """Return the interface of the card; empty if unknown, as for some software ports."""
    address = values.get("backend.dpdk.worker_ip", "")
    if address.startswith("interface:"):
        return address[len("interface:") :]
    for option in options:
        found = re.search(r"iface=([^, ]+)", option)
        if found:
            return found.group(1)
    return next((name for name, own in addresses() if own == address), "")
