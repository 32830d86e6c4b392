from __future__ import annotations

import socket

from patchgen.system.ports import free_port


def test_a_server_can_bind_it() -> None:
    with socket.create_server(("127.0.0.1", free_port())) as server:
        assert server.getsockname()[1] > 0


def test_no_port_is_given_twice() -> None:
    ports = [free_port() for _ in range(50)]
    assert len(set(ports)) == len(ports)
