"""A worker of the switch without a client library: `memif_worker.py CONFIG PACKETS`.

For `run --lab` without the source of the client library, which integration/real needs. The worker
fills in the configuration as a rank does, joins as it says, sends PACKETS packets and sums what
comes back, then sends the last one again. Prints `packets N right`.
"""

from __future__ import annotations

import configparser
import contextlib
import ipaddress
import os
import re
import struct
import sys
import time

import numpy as np

from support.switch_clients import CONNECTED, Controller, MemifClient
from support.switch_model import Packet

ELEMENTS, SIZE = 256, 3  # and how the controller and the header name that number
JOB = 1


def joined(port: int, rank: int, workers: int, address: tuple[int, int]) -> tuple[int, int]:
    """Join, and return the MAC and the address of the switch."""
    controller = Controller(f"127.0.0.1:{port}")
    begun = {1: 4711 if rank == 0 else 0, 2: rank, 3: workers, 4: 0}
    session = controller.call("Sync/Broadcast", begun)[1]
    if rank != 0:
        controller.call("Sync/Barrier", {1: workers})
    answer = controller.session(session, rank, workers, address, SIZE)
    if rank == 0:
        controller.call("Sync/Barrier", {1: workers})
    controller.call("Sync/Barrier", {1: workers})
    controller.channel.close()
    return answer[2], answer[3]


def frame(mac: int, address: int, to: tuple[int, int], number: int, values: np.ndarray) -> bytes:
    body, message = values.astype(">i4").tobytes(), number.to_bytes(4, "little")
    packet = Packet(mac, address, JOB, message, number, 0, (0, 0), body, to=(*to, 0xBEE0))
    return packet.frame()


def main() -> None:
    config = configparser.ConfigParser()
    with open(sys.argv[1], encoding="utf-8") as file:
        config.read_string(os.path.expandvars(file.read()))
    general, dpdk = config["general"], config["backend.dpdk"]
    rank, workers = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    path = re.search(r"socket=([^,]*)", dpdk["extra_eal_options"])
    assert path is not None
    mac, address = 0x020000000001 + rank, int(ipaddress.IPv4Address(dpdk["worker_ip"]))
    packets = int(sys.argv[2])
    with contextlib.closing(MemifClient(path[1], log2=8)) as port:
        assert port.connect() == CONNECTED
        to = joined(int(general["controller_port"]), rank, workers, (mac, address))
        values = np.arange(ELEMENTS)

        def check() -> int:
            got = port.receive()
            total = np.frombuffer(got[52:], ">i4")
            message: int = struct.unpack_from("<I", got, 44)[0]
            factor = workers * (workers + 1) // 2
            assert (total == values * factor + workers * message).all(), (message, total)
            return message

        for number in range(packets):
            port.send(frame(mac, address, to, number, values * (rank + 1) + number))
        assert sorted(check() for _ in range(packets)) == [*range(packets)]
        port.send(frame(mac, address, to, packets - 1, values))
        assert check() == packets - 1
        time.sleep(0.2)
        assert port.nothing()
    sys.stdout.write(f"packets {packets} right\n")


if __name__ == "__main__":
    main()
