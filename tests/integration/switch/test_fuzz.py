"""The switch under seeded inputs, beside a session whose sums must stay right."""

from __future__ import annotations

import os
import random
import select
import socket
import struct
import time
from collections import Counter
from contextlib import closing

import grpc
from support.fuzz import FIRST, INPUTS, NUMBERS, spoil
from support.switch_clients import ACK, CONNECTED, DISCONNECT, HELLO, MemifClient, encoded
from support.switch_model import Model, Packet
from support.switch_program import Switch, Switches
from support.switch_traces import ADDRESSES
from support.unprivileged import directory
from support.waiting import ENOUGH, open_files, until

BATCH = 50  # calls at a time; those that wait for others take a moment
METHODS = (
    "Sync/Barrier", "Sync/Broadcast", "Session/UdpSession", "Session/RdmaSession", "Session/None",
)  # fmt: skip
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def offer(rng: random.Random, client: MemifClient) -> bool:
    """Says what a client says on its socket, or nearly; tells if it is connected all the same."""
    ends = os.pipe()
    offers = client.offers()
    if rng.random() < 0.25:
        rng.shuffle(offers)
    while rng.random() < 0.25:
        offers.append(rng.choice(offers))
    spoiled = rng.randrange(len(offers) + 1)
    connected = False
    try:
        for at, (kind, body, descriptor) in enumerate(offers):
            message = (struct.pack("<H", kind) + body).ljust(128, b"\0")
            descriptors = [] if descriptor is None else [descriptor]
            if at == spoiled and rng.random() < 0.25:
                held = [*ends, client.file, client.events[0]]
                descriptors = rng.choices(held, k=rng.randrange(12))
            elif at == spoiled:
                message = spoiled_message(rng, message)
            socket.send_fds(client.control, [message], descriptors)
            if len(message) == 128 and message[:2] == struct.pack("<H", ACK):
                continue
            answer = client.hear()
            connected |= answer == CONNECTED
            if answer in {0, DISCONNECT}:
                return False
    except OSError:  # refused meanwhile
        return False
    finally:
        for end in ends:
            os.close(end)
    return connected


def spoiled_message(rng: random.Random, message: bytes) -> bytes:
    kind = rng.randrange(6)
    if kind == 0:
        return message[: rng.randrange(128)]
    if kind == 1:
        return rng.randbytes(128)
    size, at = rng.choice([(2, 0), (1, 8), (2, 2), (2, 4), (2, 6), (4, 8), (8, 4), (1, 12)])
    value: int = rng.choice([*NUMBERS, *range(10), 1 << 30]) % 256**size
    return message[:at] + value.to_bytes(size, "little") + message[at + size :]


def scribble(rng: random.Random, client: MemifClient, ranks: int) -> None:
    """Writes into a client's memory: frames, and what no client should write."""
    for _ in range(rng.randrange(1, 7)):
        own = ADDRESSES[rng.randrange(ranks)]
        packet = Packet(*own, 3, b"1234", rng.randrange(4), 0, (0, 0), rng.randbytes(256))
        frame = spoil(rng, packet.frame())[: client.buffer]
        head = client.head(0)
        offset = 2 * client.ring_bytes + head % client.slots * client.buffer
        client.memory[offset : offset + len(frame)] = frame
        client.set_slot(0, head, 0, 0, len(frame), offset)
        if rng.random() < 0.5:
            spoil_memory(rng, client)
        client.set_head(0, head + 1)
        if rng.random() < 0.5:
            spoil_memory(rng, client)
        os.eventfd_write(client.events[0], 1)
    deadline = time.monotonic() + 0.002  # it may neither take all nor close the connection
    while not client.idle(0) and time.monotonic() < deadline:
        if select.select([client.control], [], [], 0)[0]:
            break


def spoil_memory(rng: random.Random, client: MemifClient) -> None:
    ring, kind = rng.randrange(2), rng.randrange(7)
    if kind < 3:
        values = [rng.choice(NUMBERS) for _ in range(3)]
        offset = rng.choice([*NUMBERS, rng.randrange(2 * len(client.memory))]) % 2**32
        fields = (values[0] % 2**16, values[1] % 2**16, values[2] % 2**32, offset)
        slot = rng.choice([client.head(0), rng.randrange(client.slots)])
        own = client.slot(ring, slot)
        spoiled = [one if rng.random() < 0.3 else other for one, other in zip(fields, own)]
        client.set_slot(ring, slot, *spoiled)
    elif kind == 3:
        for slot in range(client.slots):  # buffers that are too short
            flags, region, _, offset = client.slot(ring, slot)
            client.set_slot(ring, slot, flags, region, rng.randrange(20), offset)
    elif kind == 4:
        garbage = rng.randbytes(rng.randrange(client.ring_bytes))
        start = ring * client.ring_bytes
        client.memory[start : start + len(garbage)] = garbage
    else:
        place = struct.pack("<H", rng.choice(NUMBERS) % 2**16)
        at = ring * client.ring_bytes + rng.choice([4, 6, 64])  # flags, head, tail
        client.memory[at : at + 2] = place


def test_no_client_of_memif_harms_a_session(start: Switches) -> None:
    faults = ("--loss=0.1", "--duplicate=0.1", "--reorder=0.1", "--delay=0.05")
    beside = start(3)
    honest = [beside.client(rank) for rank in range(2)]
    beside.join(1, ADDRESSES[:2])
    connected = 0
    with directory() as short, closing(Switch(beside.program, short, 1, *faults)) as own:
        own.join(FIRST + INPUTS + 1, ADDRESSES[:1])
        with closing(MemifClient(own.sockets[0])) as client:
            client.connect()
        before = descriptors(own)
        for number in range(FIRST, FIRST + INPUTS):
            rng = random.Random(number)
            if number % 50 == 0:
                own.join(1 + number, ADDRESSES[: rng.choice([1, 2])])
            switch, port, ranks = rng.choice([(own, 0, 2), (beside, 2, 4)])
            with closing(MemifClient(switch.sockets[port])) as client:
                if rng.random() < 0.5:
                    served = client.hear() == HELLO and offer(rng, client)
                else:
                    served = client.connect(grant=False) == CONNECTED
                if served:
                    connected += 1
                    client.grant(0)
                    scribble(rng, client, ranks)
            if number % 4 == 0:
                summed(honest, number // 4)
        assert connected > INPUTS // 5
        until(lambda: not descriptors(own) - before, own.process)
        own.stop()
    assert beside.stop()["sessions"] == 1


def descriptors(switch: Switch) -> Counter[str]:
    """Return what the switch has open.

    A file that gRPC has open for a moment is no client's, so only what comes later counts.
    """
    return Counter(open_files(switch.process.pid))


def body(number: int) -> bytes:
    """Of a call: the fields of a worker, or nearly; never of the address of rank 0."""
    rng = random.Random(number)
    fields = {field: rng.choice(NUMBERS) for field in range(1, 8) if rng.random() < 0.8}
    return spoil(rng, encoded(fields))


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
