"""TCP ports for programs that must be told theirs before they start."""

from __future__ import annotations

import socket

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
