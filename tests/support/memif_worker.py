"""A worker of the switch without a client library: `memif_worker.py CONFIG PACKETS`.

It joins as the configuration says, sends PACKETS packets and sums what comes back, then sends the
last one again. Prints `packets N right`.
"""

from __future__ import annotations

import configparser
import importlib
import ipaddress
import re
import struct
import sys
from typing import Any, Callable

import numpy as np

from support.memif import Memif

grpc: Any = importlib.import_module("grpc")
ELEMENTS = 256
JOB = 1


def encoded(*fields: int) -> bytes:
    """A protobuf message of integers, numbered from 1; those of 0 are left out."""

    def varint(value: int) -> bytes:
        low, rest = value & 0x7F, value >> 7
        return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])

    return b"".join(
        varint(number << 3) + varint(value) for number, value in enumerate(fields, 1) if value
    )


def decoded(message: bytes) -> dict[int, int]:
    """The integers of a message by their numbers."""
    found, values, value, shift = {}, [], 0, 0
    for octet in message:
        value |= (octet & 0x7F) << shift
        shift += 7
        if octet < 0x80:
            values.append(value)
            value = shift = 0
    for tag, content in zip(values[::2], values[1::2]):
        found[tag >> 3] = content
    return found


def joined(port: int, rank: int, workers: int, mac: int, address: int) -> tuple[int, int]:
    """Joins, and returns the MAC and the address of the switch."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:

        def call(service: str, method: str, *fields: int) -> dict[int, int]:
            called: Callable[..., bytes] = channel.unary_unary(
                f"/switchml_proto.{service}/{method}",
                request_serializer=bytes,
                response_deserializer=bytes,
            )
            return decoded(called(encoded(*fields), timeout=60))

        session = call("Sync", "Broadcast", 4711 if rank == 0 else 0, rank, workers, 0)[1]
        request = (session, rank, workers, mac, address, 0, 3)
        if rank == 0:
            answer = call("Session", "UdpSession", *request)
            call("Sync", "Barrier", workers)
        else:
            call("Sync", "Barrier", workers)
            answer = call("Session", "UdpSession", *request)
        call("Sync", "Barrier", workers)
    return answer[2], answer[3]


def frame(mac: int, address: int, to: tuple[int, int], number: int, values: np.ndarray) -> bytes:
    body = values.astype(">i4").tobytes()
    own = struct.pack("<BBI", 0x13, JOB, number) + struct.pack(">Hbb", number, 0, 0) + body
    return b"".join((
        to[0].to_bytes(6, "big"), mac.to_bytes(6, "big"), b"\x08\x00",
        struct.pack(">BBHHHBBHII", 0x45, 0, 28 + len(own), 0, 0, 64, 17, 0, address, to[1]),
        struct.pack(">HHHH", 4000, 0xBEE0, 8 + len(own), 0), own,
    ))  # fmt: skip


def main() -> None:
    config = configparser.ConfigParser()
    config.read(sys.argv[1])
    general, dpdk = config["general"], config["backend.dpdk"]
    rank, workers = int(general["rank"]), int(general["num_workers"])
    path = re.search(r"socket=([^,]*)", dpdk["extra_eal_options"])
    assert path is not None
    mac, address = 0x020000000001 + rank, int(ipaddress.IPv4Address(dpdk["worker_ip"]))
    packets = int(sys.argv[2])
    with Memif(path[1]) as port:
        to = joined(int(general["controller_port"]), rank, workers, mac, address)
        values = np.arange(ELEMENTS)
        for number in range(packets):
            port.send(frame(mac, address, to, number, values * (rank + 1) + number))
        for number in [*range(packets), packets - 1]:
            got = port.receive()
            assert got is not None, number
            total = np.frombuffer(got[52:], ">i4")
            told: int = struct.unpack_from("<I", got, 44)[0]
            factor = workers * (workers + 1) // 2
            assert (total == values * factor + workers * told).all(), (told, total)
            if number == told == packets - 1 and not port.sent > packets:
                port.send(frame(mac, address, to, number, values))
        assert port.receive(0.2) is None
    sys.stdout.write(f"packets {packets} right\n")


if __name__ == "__main__":
    main()
