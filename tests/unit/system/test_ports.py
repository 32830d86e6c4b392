from __future__ import annotations

import os
import socket

import pytest

from patchgen.system.ports import free_port


def test_a_server_can_bind_it() -> None:
    with socket.create_server(("127.0.0.1", free_port())) as server:
        assert server.getsockname()[1] > 0


def test_it_stays_reserved_and_nobody_listens() -> None:
    address = ("127.0.0.1", free_port())
    with pytest.raises(ConnectionRefusedError), socket.create_connection(address):
        pass
    for host in (address[0], "127.0.0.2"):  # a server may listen on all addresses
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind((host, address[1]))  # without SO_REUSEADDR, as what takes any port


def test_few_descriptors_are_held() -> None:
    for _ in range(100):
        free_port()
    held = len(os.listdir("/proc/self/fd"))
    for _ in range(100):
        free_port()
    assert len(os.listdir("/proc/self/fd")) == held
