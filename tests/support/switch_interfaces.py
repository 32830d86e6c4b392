"""Run in a network namespace of its own: workers with raw sockets on pairs of interfaces.

python switch_interfaces.py PROGRAM DIRECTORY
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from support.switch_model import Model, Packet
from support.switch_program import Switch
from support.switch_traces import ADDRESSES
from support.waiting import until

WORKERS = 2
FRAMES = 300  # more than any batch


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def pair(rank: int) -> socket.socket:
    """Connect two interfaces, one for the switch; return a worker's socket on the other."""
    ours, theirs = f"worker{rank}", f"switch{rank}"
    ip("link", "add", ours, "type", "veth", "peer", "name", theirs)
    for name in (ours, theirs):
        for family in ("default", name):
            path = Path(f"/proc/sys/net/ipv6/conf/{family}/disable_ipv6")
            if path.exists():
                path.write_text("1")
        ip("link", "set", name, "up")
    worker = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
    worker.bind((ours, 0x0800))
    worker.settimeout(60)
    return worker


def packet(rank: int, number: int) -> bytes:
    values = bytes([rank, number % 256, 255, 7]) * 256
    return Packet(
        *ADDRESSES[rank], 1, number.to_bytes(4, "little"), number, 0, (rank, 3), values
    ).frame()


def exchange(workers: Sequence[socket.socket]) -> list[bool]:
    """Return for each worker whether it got all sums right; answers come in order."""
    model = Model()
    model.begin([*ADDRESSES[:WORKERS]], 256, fresh=True)
    right = [True] * WORKERS
    for number in range(FRAMES):
        for rank, worker in enumerate(workers):
            answers = model.take(packet(rank, number))[2]
            worker.send(packet(rank, number))
            for to, frame in answers:
                right[to] &= workers[to].recv(2000) == frame
    return right


def main(program: str, directory: str) -> None:
    workers = [pair(rank) for rank in range(WORKERS)]
    names = [f"packet:switch{rank}" for rank in range(WORKERS)]
    switch = Switch(program, Path(tempfile.mkdtemp(dir=directory)), 0, ports=names)
    try:
        ip("link", "set", "lo", "up")
        switch.join(1, ADDRESSES[:WORKERS], size=3)
        first = exchange(workers)
        # An interface that goes is opened anew when it comes back.
        workers[0].close()
        ip("link", "delete", "worker0")
        until(lambda: "the interface is gone" in switch.errors.read_text(), switch.process)
        workers[0] = pair(0)
        until(lambda: "the interface is back" in switch.errors.read_text(), switch.process)
        switch.join(2, ADDRESSES[:WORKERS], size=3)
        second = exchange(workers)
        sys.stdout.write(json.dumps({"right": [*first, *second], **switch.stop()}))
    finally:
        switch.close()
        for worker in workers:
            worker.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
