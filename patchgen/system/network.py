"""Network interfaces of this machine."""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import socket
import struct

_SIOCGIFADDR = 0x8915  # netdevice(7)
_IPV6 = "/proc/net/if_inet6"
_NAME = 16  # bytes of a name in the request


def find_interface(address: str) -> str:
    """Finds the interface that has an address; empty where it is not found."""
    wanted = ipaddress.ip_address(address.partition("%")[0])
    if wanted.is_loopback:
        return "lo"
    if isinstance(wanted, ipaddress.IPv6Address):
        with contextlib.suppress(OSError), open(_IPV6, encoding="ascii") as file:
            for line in file:
                words = line.split()
                if int(words[0], 16) == int(wanted):
                    return words[-1]
        return ""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # it has none
                request = struct.pack("256s", name.encode()[:_NAME])
                answer = fcntl.ioctl(asked.fileno(), _SIOCGIFADDR, request)
                if answer[20:24] == wanted.packed:
                    return name
    return ""
