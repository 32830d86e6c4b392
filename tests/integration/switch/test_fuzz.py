"""The switch under seeded inputs, beside a session whose sums must stay right."""

from __future__ import annotations

import random
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest
from support.fuzz import FIRST, INPUTS, compiled, counted
from support.switch_clients import encoded
from support.switch_model import Model, Packet
from support.switch_traces import ADDRESSES
from support.unprivileged import directory
from support.waiting import ENOUGH

from patchgen.extras.lab.switch import SOURCE

if TYPE_CHECKING:
    from support.switch_clients import MemifClient
    from support.switch_program import Switches

pytestmark = pytest.mark.integration

BATCH = 50  # calls at a time; those that wait for others take a moment
METHODS = (
    "Sync/Barrier", "Sync/Broadcast", "Session/UdpSession", "Session/RdmaSession", "Session/None",
)  # fmt: skip
NUMBERS = [0, 1, 2, 3, 31, 32, 33, 2**31, 2**32 - 1, 2**63, 2**64 - 1]
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def test_no_client_of_memif_harms_a_session(switch_program: str, tmp_path: Path) -> None:
    archive = Path(switch_program).parent / "build" / "libplane.a"
    program = compiled(tmp_path, "switch_fuzz.cc", [Path(SOURCE, "src")], archive)
    with directory() as short:  # of sockets
        found = counted(program, short)
    assert found["inputs"] == INPUTS
    assert found["sums beside them"] > INPUTS // 5
    assert found["connected"] > INPUTS // 5


def body(number: int) -> bytes:
    """Of a call: the fields of a worker, or nearly; never of the address of rank 0."""
    rng = random.Random(number)
    fields = {field: rng.choice(NUMBERS) for field in range(1, 8) if rng.random() < 0.8}
    octets = bytearray(encoded(fields))
    while rng.random() < 0.3:
        octets[rng.randrange(len(octets) + 1) :] = rng.randbytes(rng.randrange(40))
    return bytes(octets)


def test_no_call_of_the_controller_harms_a_session(start: Switches) -> None:
    switch = start(2, "--wait=0.02")
    clients = [switch.client(rank) for rank in range(2)]
    switch.join(1, ADDRESSES[:2])
    host, port = switch.address.split(":")
    with grpc.insecure_channel(switch.address) as channel:
        for first in range(FIRST, FIRST + INPUTS // 3, BATCH):
            calls = [
                channel.unary_unary(f"/switchml_proto.{METHODS[number % len(METHODS)]}").future(
                    body(number), timeout=ENOUGH, wait_for_ready=True
                )
                for number in range(first, first + BATCH)
            ]
            with socket.create_connection((host, int(port))) as stranger:
                stranger.sendall(PREFACE * (first % 2) + random.Random(first).randbytes(99))
                summed(clients, first // BATCH)
            for call in calls:
                call.exception()  # waits for the answer, whatever it is
    assert switch.stop()["sessions"] == 1


def summed(clients: list[MemifClient], number: int) -> None:
    model = Model()
    model.begin([*ADDRESSES[:2]], 64, fresh=True)
    slot, half = number % 100, number // 100 % 2
    for rank, client in enumerate(clients):
        values = random.Random(number + rank).randbytes(256)
        frame = Packet(*ADDRESSES[rank], 3, b"1234", slot, half, (0, 0), values).frame()
        answers = model.take(frame)[2]
        client.send(frame)
    for to, answer in answers:
        assert clients[to].receive() == answer
