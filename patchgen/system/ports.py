"""TCP addresses of users, and free ports."""

from __future__ import annotations

import os
import re
import socket
from collections import deque

HIGHEST = 0xFFFF
NO_ADDRESS = "not HOST:PORT"

_HOST = re.compile(r"[\w.:%-]+")
_PORT = re.compile(r"[0-9]{1,5}")
_MOST = 64
_RESERVED: deque[int] = deque()
"""Descriptors of the sockets that hold the latest ports."""


def free_port() -> int:
    """Reserve a port of all addresses for a server that sets SO_REUSEADDR, as most do.

    The port stays bound without a listener while this process lives, or until many more are
    reserved. So the kernel assigns it to no other program, however late the server starts.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("", 0))
        port: int = holder.getsockname()[1]
        _RESERVED.append(holder.detach())
    if len(_RESERVED) > _MOST:
        os.close(_RESERVED.popleft())
    return port


def split_address(text: str, lowest: int = 1) -> tuple[str, int]:
    """Split HOST:PORT; an IPv6 address may be in brackets. A `lowest` port of 0 means any.

    Raises:
        ValueError: it is no such address.
    """
    host, _, port = text.rpartition(":")
    host = host[1:-1] if host[:1] + host[-1:] == "[]" else host
    if not _is_host(host) or not (_PORT.fullmatch(port) and lowest <= int(port) <= HIGHEST):
        raise ValueError(f"{text}: {NO_ADDRESS} with a port from {lowest} to {HIGHEST}")
    return host, int(port)


def _is_host(text: str) -> bool:
    """Return whether a text may be a name or an address."""
    try:
        return bool(_HOST.fullmatch(text) and text.encode("idna"))
    except UnicodeError:
        return False
