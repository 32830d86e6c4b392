"""Addresses of this host's interfaces, and the address that Gloo uses."""

import array
import fcntl
import socket
import struct
from typing import Any

from .finding import read

_SIOCGIFCONF, _ROOM, _ENTRY = 0x8912, 16384, 40


def find_gloo_address(environ: "dict[str, str]") -> str:
    """Return the address that torch gives to Gloo; empty if torch falls back to the loopback."""
    interface = environ.get("GLOO_SOCKET_IFNAME", "").split(",")[0]
    if interface:
        return dict([*_long(), *addresses()]).get(interface, "")
    try:
        found = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
    except OSError:
        return ""
    return next((str(one[4][0]) for one in found if _is_own(one)), "")


def addresses() -> "list[tuple[str, str]]":
    """Return pairs of the name of an interface and its IPv4 address."""
    room = array.array("B", bytes(_ROOM))
    place = room.buffer_info()[0]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        answer = fcntl.ioctl(probe, _SIOCGIFCONF, struct.pack("iL", _ROOM, place))
    size = struct.unpack("iL", answer)[0]
    entries = [room.tobytes()[at : at + _ENTRY] for at in range(0, size, _ENTRY)]
    return [(one[:16].split(b"\0")[0].decode(), socket.inet_ntoa(one[20:24])) for one in entries]


def _long() -> "list[tuple[str, str]]":
    """Return pairs of the name of an interface and its IPv6 address."""
    lines = [line.split() for line in read("/", "proc/net/if_inet6").splitlines()]
    return [(one[-1], socket.inet_ntop(socket.AF_INET6, bytes.fromhex(one[0]))) for one in lines]


def _is_own(found: "tuple[Any, ...]") -> bool:
    try:
        with socket.socket(*found[:3]) as tried:
            tried.bind(found[4])
    except OSError:
        return False
    return True
