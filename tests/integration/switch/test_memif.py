"""Workers that share memory with the switch, and clients that break the protocol."""

from __future__ import annotations

import os
import resource
import struct
import subprocess
import time
from pathlib import Path
from typing import Callable

import numpy as np
import pytest
from support.switch_clients import DISCONNECT, MemifClient
from support.switch_model import Model, Packet
from support.switch_program import Switch, Switches
from support.switch_traces import ADDRESSES
from support.waiting import until


def packet(rank: int, slot: int = 0, number: int = 0, elements: int = 64, half: int = 0) -> bytes:
    values = np.arange(elements, dtype=np.uint32) * 0x10001 + rank + number
    return Packet(
        *ADDRESSES[rank], 3, number.to_bytes(4, "little"), slot, half, (rank, -rank),
        values.astype(">u4").tobytes(), source=4000 + slot % 2,
    ).frame()  # fmt: skip


def summed(switch: Switch, clients: list[MemifClient], slot: int = 0, queue: int = 0) -> None:
    """Each gets what the model says."""
    model = Model()
    model.begin([*ADDRESSES[: len(clients)]], 64, fresh=True)
    for rank, client in enumerate(clients):
        answers = model.take(packet(rank, slot))[2]
        client.send(packet(rank, slot), queue)
        for to, frame in answers:
            assert clients[to].receive(queue) == frame
    assert switch.process.poll() is None


@pytest.mark.parametrize("buffer", [2048, 100])
def test_sums_come_back_on_the_queue_of_the_last_packet(start: Switches, buffer: int) -> None:
    """Also where a client's buffers are so short that each frame is in several."""
    switch = start(3)
    clients = [switch.client(rank, queues=2, buffer=buffer) for rank in range(3)]
    switch.join(1, ADDRESSES[:3])
    for number in range(40):  # more than once around the rings
        summed(switch, clients, slot=number, queue=number % 2)
    assert all(client.nothing(queue) for client in clients for queue in range(2))
    clients[0].send(packet(0, 39), 1)  # sent again: the sum once more, for it alone
    clients[0].receive(1)
    clients[1].send(packet(1, 40), 0)
    clients[1].send(packet(1, 40), 0)  # sent again too soon
    clients[1].send(packet(1, 41)[:-4], 0)
    clients[1].send(os.urandom(60), 0)
    until(lambda: clients[1].idle(0))
    found = switch.stop()
    names = ("received", "summed", "resent", "answered", "answered_again", "malformed")
    assert [[worker[name] for name in names] for worker in found["workers"]] == [
        [41, 40, 1, 41, 1, 0],
        [43, 41, 1, 40, 0, 1],
        [40, 40, 0, 40, 0, 0],
    ]
    assert found["sets"][0] == {
        "set": 0, "received": 123, "summed": 121, "resent": 2, "complete": 40, "answered_again": 1,
    }  # fmt: skip
    assert found["foreign"] == 1
    assert [port["sent"] for port in found["ports"]] == [41, 40, 40]


def test_answers_wait_for_a_client_that_has_not_polled(start: Switches) -> None:
    switch = start(2)
    clients = [switch.client(rank, log2=3, grant=rank == 1) for rank in range(2)]
    switch.join(1, ADDRESSES[:2])
    for rank, client in enumerate(clients):
        for number in range(40):
            client.send(packet(rank, number, number))
            if rank == 1:
                client.receive()
    clients[0].grant(0)
    found = [struct.unpack_from("<I", clients[0].receive(), 44)[0] for _ in range(40)]
    assert found == [*range(40)]


def test_a_new_session_gets_no_frame_of_an_old_one(start: Switches) -> None:
    """Not on the way to the switch, and not on the way back."""
    delay = 0.4
    switch = start(2, f"--delay={1000 * delay}")
    clients = [switch.client(rank) for rank in range(2)]
    switch.join(1, ADDRESSES[:2])
    for rank, client in enumerate(clients):
        client.send(packet(rank, 1))
    time.sleep(1.2 * delay)  # now their sum is on the way back
    clients[0].send(packet(0, number=7))
    until(lambda: clients[0].idle(0))
    switch.join(2, ADDRESSES[:2])
    for client in clients:  # where this machine was slow
        while not client.nothing():
            client.receive()
    summed(switch, clients)
    assert all(client.nothing() for client in clients)


def test_a_killed_client_connects_again(start: Switches) -> None:
    switch = start(2)
    for number in range(3):
        clients = [switch.client(rank) for rank in range(2)]
        switch.join(number + 1, ADDRESSES[:2])
        summed(switch, clients)
        another = MemifClient(switch.sockets[0])
        assert another.hear() == DISCONNECT
        assert another.reason == "another client is connected"
        another.close()
        for client in clients:
            client.close()
    assert [port["departures"] for port in switch.stop()["ports"]] == [3, 3]


def test_nobody_takes_the_place_of_a_worker(start: Switches) -> None:
    """Frames with a worker's addresses from another port than its first packet's are not summed."""
    switch = start(3)
    clients = [switch.client(rank) for rank in range(3)]
    switch.join(1, ADDRESSES[:2])
    summed(switch, clients[:2])
    clients[2].send(packet(0, 1))
    until(lambda: clients[2].idle(0))
    summed(switch, clients[:2], slot=1)
    assert [worker["elsewhere"] for worker in switch.stop()["workers"]] == [1, 0]


def offer(client: MemifClient, *fields: int) -> None:
    """A slot that is none."""
    client.set_slot(0, client.head(0), *fields)
    client.set_head(0, client.head(0) + 1)


OUTSIDE = "the slot is outside of its region"


def room(client: MemifClient, size: int, offset: int) -> None:
    """Writes all slots for answers."""
    for slot in range(client.slots):
        client.set_slot(1, slot, 0, 0, size, offset)


BREAKS: dict[str, tuple[Callable[[MemifClient], object], str]] = {
    "head": (
        lambda client: client.set_head(0, client.head(0) + client.slots + 1),
        "the ring's head is out of range",
    ),
    "room": (
        lambda client: client.set_head(1, client.head(1) + 1),
        "the ring's head is out of range",
    ),
    "outside": (lambda client: offer(client, 0, 0, 1, len(client.memory)), OUTSIDE),
    "long": (lambda client: offer(client, 0, 0, 0xFFFFFFFF, 8), OUTSIDE),
    "region": (lambda client: offer(client, 0, 3, 64, 0), "the slot's region is missing"),
    "room outside": (lambda client: room(client, 2048, len(client.memory) - 10), OUTSIDE),
    "no room": (lambda client: room(client, 0, 0), "the buffers are too short"),
    "message": (lambda client: client.tell(42), "unexpected message"),
    "short": (lambda client: client.control.send(b"x"), "wrong message size"),
}


@pytest.mark.parametrize("name", BREAKS)
def test_who_breaks_the_protocol_is_reported_and_disconnected(start: Switches, name: str) -> None:
    """The others are served on."""
    does, message = BREAKS[name]
    switch = start(3)
    clients = [switch.client(rank) for rank in range(3)]
    switch.join(1, ADDRESSES[:3])
    summed(switch, clients)
    does(clients[2])
    if "room" in name:
        for rank, client in enumerate(clients):  # an answer shows it
            client.send(packet(rank, 1))
        for client in clients[:2]:
            assert client.receive()
    assert clients[2].hear() == DISCONNECT
    assert clients[2].reason == message
    clients[2].close()
    clients[2] = switch.client(2)
    switch.join(2, ADDRESSES[:3])
    summed(switch, clients, slot=2)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sealed": False}, "the region's file may shrink (zero-copy?)"),
        ({"size": 1 << 20}, "the region's file is too short"),
        ({"size": 1 << 40}, "wrong region size"),
        ({"size": 200}, "the ring is outside of its region"),
    ],
)
def test_memory_that_cannot_be_relied_on_is_refused(
    start: Switches, given: dict[str, int], message: str
) -> None:
    switch = start(1)
    client = MemifClient(switch.sockets[0], **given)  # type: ignore[arg-type]
    assert client.connect() == DISCONNECT
    assert client.reason == message
    client.close()
    assert switch.client(0)


def test_what_is_no_eventfd_is_refused(start: Switches) -> None:
    """Writing to a pipe might block."""
    switch = start(1)
    client = MemifClient(switch.sockets[0])
    ends = os.pipe()
    client.events[0], event = ends[1], client.events[0]
    assert client.connect() == DISCONNECT
    assert client.reason == "the ring has no eventfd"
    client.close()
    for number in (ends[0], event):
        os.close(number)


@pytest.mark.parametrize("missing", ["control", "interrupt"])
def test_a_client_that_the_poller_has_no_room_for_is_refused(
    start: Switches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """The others are served on, and it may come again."""
    clients = 6
    library = tmp_path / "full_poller.so"
    source = Path(__file__).parents[2] / "cpp" / "full_poller.c"
    subprocess.run(["gcc", "-shared", "-fPIC", source, "-o", library, "-ldl"], check=True)
    monkeypatch.setenv("LD_PRELOAD", str(library))
    others = 2 * (clients - 1)  # of each client the socket, and the interrupt of a queue
    listeners = clients + 1  # and the bell
    monkeypatch.setenv("POLLER_ROOM", str(listeners + others + (missing == "interrupt")))
    switch = start(clients)
    monkeypatch.delenv("LD_PRELOAD")
    served = [switch.client(rank) for rank in range(clients - 1)]
    switch.join(1, ADDRESSES[: clients - 1])
    summed(switch, served)
    message = "the switch cannot poll another descriptor: No space left on device"
    for _ in range(3):
        refused = MemifClient(switch.sockets[-1])
        if missing == "control":
            assert refused.hear() == DISCONNECT
        else:
            assert refused.connect() == DISCONNECT
        assert refused.reason == message
        refused.close()
    summed(switch, served, slot=1)
    assert f"memif:{switch.sockets[-1]}: refused: {message}" in switch.errors.read_text()
    served.pop().close()
    until(lambda: "the client has gone" in switch.errors.read_text(), switch.process)
    served.append(switch.client(clients - 1))
    switch.join(2, ADDRESSES[: clients - 1])
    summed(switch, served, slot=2)


def test_all_rings_of_all_clients_have_their_descriptors(start: Switches) -> None:
    """More than the usual limit of a process, which it may raise."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (150, hard))  # of the switch as well
    try:
        switch = start(3)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    clients = [switch.client(rank, queues=32, log2=2) for rank in range(3)]
    switch.join(1, ADDRESSES[:3])
    summed(switch, clients, queue=31)


def lone(switch: Switch) -> MemifClient:
    client = switch.client(0, log2=8)
    switch.join(1, ADDRESSES[:1])
    return client


def test_loss_is_counted(start: Switches) -> None:
    switch = start(1, "--loss=0.25", "--seed=4")
    client = lone(switch)
    for number in range(200):
        client.send(packet(0, number, number))
    until(lambda: client.idle(0))
    found = switch.stop()["workers"][0]
    assert 20 < found["lost"] < 80
    assert found["received"] == found["summed"] == found["answered"] == 200 - found["lost"]
    assert 10 < found["answers_lost"] < 80
    assert switch.counters_path.read_text().startswith('{\n  "seed": 4,')


def test_everything_comes_twice(start: Switches) -> None:
    switch = start(1, "--duplicate=1")
    client = lone(switch)
    client.send(packet(0, 0, 9))
    answers = [client.receive() for _ in range(4)]  # two packets, each answered twice
    assert len({*answers}) == 1
    found = switch.stop()
    assert found["duplicated"] == 3
    assert (found["workers"][0]["summed"], found["workers"][0]["answered_again"]) == (1, 1)


def test_frames_overtake_only_those_of_other_slots(start: Switches) -> None:
    switch = start(1, "--reorder=0.5", "--seed=1", "--delay=1.5")
    client = lone(switch)
    numbers = [*range(240)]
    for number in numbers:
        client.send(packet(0, number % 7, number, half=number // 7 % 2))
    found = [struct.unpack_from("<I", client.receive(), 44)[0] for _ in numbers]
    assert sorted(found) == numbers
    assert found != numbers
    for slot in range(7):
        assert [one for one in found if one % 7 == slot] == [*range(slot, 240, 7)]
    assert switch.stop()["overtaken"] > 20
