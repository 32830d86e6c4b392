"""TCP addresses as users write them, and free ports."""

from __future__ import annotations

import socket

HIGHEST = 0xFFFF

_LOOPBACK = "127.0.0.1"


def free_port() -> int:
    """A port of the loopback that a server, one that sets SO_REUSEADDR, may bind next.

    A connection that ends here first leaves the port in TIME_WAIT, so for a minute the kernel gives
    it to no other program that takes any port.
    """
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((_LOOPBACK, 0))
        listener.listen(1)
        port: int = listener.getsockname()[1]
        with socket.create_connection((_LOOPBACK, port)):
            listener.accept()[0].close()
    return port


def split_address(text: str, lowest: int = 1) -> tuple[str, int]:
    """Host and port of HOST:PORT; an address of IPv6 may stand in brackets.

    Args:
        text: the address.
        lowest: port; with 0, the system may choose one.

    Raises:
        ValueError: it is no such address.
    """
    host, _, port = text.rpartition(":")
    host = host[1:-1] if host[:1] + host[-1:] == "[]" else host
    if not host or not (port.isascii() and port.isdigit() and lowest <= int(port) <= HIGHEST):
        raise ValueError(f"{text}: not HOST:PORT with a port from {lowest} to {HIGHEST}")
    return host, int(port)
