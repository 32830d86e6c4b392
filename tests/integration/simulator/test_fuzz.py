"""The aggregator under seeded inputs, beside a session whose sums must stay right."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
from pathlib import Path

from support.fuzz import FIRST, INPUTS, NUMBERS, spoil
from support.serving import Served, serving
from support.simulator import (
    DATA,
    EXPONENTS,
    GOODBYE,
    HELLO,
    JOB,
    REFUSED,
    Job,
    frame,
    hello,
    started,
)
from support.waiting import ENOUGH

ROUND = 50
"""Inputs after which a session of honest workers runs where the others are."""
LEFT_OPEN = 20


def dial(address: str, number: int) -> socket.socket:
    """Connects from one of many addresses, as ports are left in TIME_WAIT."""
    host, port = address.split(":")
    own = (f"127.0.0.{2 + number % 200}", 0)
    return socket.create_connection((host, int(port)), ENOUGH, source_address=own)


def say(connection: socket.socket, octets: bytes) -> None:
    with contextlib.suppress(ConnectionError):  # refused meanwhile
        connection.sendall(octets)


def answers(connection: socket.socket) -> bytes:
    """Reads until the aggregator closes the connection, which it must."""
    message = b""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_WR)
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(65536):
            message += part
    return message


def any_frame(rng: random.Random) -> bytes:
    header = struct.pack("=IIQ", HELLO + rng.randrange(10), rng.choice(NUMBERS) % 2**32, 0)
    return header + rng.randbytes(rng.randrange(200))


def stranger(rng: random.Random) -> bytes:
    """Words of somebody who is not of the session."""
    kind = rng.randrange(5)
    if kind == 0:
        return rng.randbytes(rng.randrange(300))
    octets = any_frame(rng) if kind == 1 else hello(rng.randrange(2), **strange(rng, 4))
    while rng.random() < 0.3:
        octets += any_frame(rng)
    return spoil(rng, octets)


def strange(rng: random.Random, most: int) -> dict[str, int]:
    """Values of a hello that no worker says, some of them at least."""
    names = ["packet_numel", "outstanding", "threads", "workers", "version", "quantizer", "magic"]
    return {name: rng.choice(NUMBERS) for name in rng.sample(names, rng.randrange(most))}


def wild(rng: random.Random) -> list[int]:
    """Number of elements, type and operation of a job that may be impossible."""
    return [rng.choice(NUMBERS), *rng.choices([0, 1, 2, 2**31], k=2)]


def member(rng: random.Random, rank: int, jobs: list[list[int]], *, faulty: bool) -> bytes:
    """A worker's side of a session of short jobs, as it should be, or nearly."""
    octets = hello(rank, limit_ms=20, **(strange(rng, 2) if faulty else {}))
    spoiled = rng.randrange(12) if faulty else -1
    for number, values in enumerate(jobs):
        numel, kind, _ = values
        given = wild(rng) if number == spoiled else values
        octets += frame(JOB, struct.pack("=QII", *given), number)
        if numel > 100:
            continue
        steps = [(DATA, 4 * numel)]
        if kind == 0:  # float32 has exponents, here a packet for each thread
            steps = [(EXPONENTS, 4 * 4), *steps]
        for step, (name, size) in enumerate(steps):
            wrong = rng.randrange(1, 4) if 3 + 2 * number + step == spoiled else 0
            body = rng.randbytes(size) + bytes(4 * (wrong == 1))
            octets += frame(JOB if wrong == 2 else name, body, 7 if wrong == 3 else 0)
    octets += frame(GOODBYE) if rng.random() < 0.5 else b""
    return spoil(rng, octets) if faulty and rng.random() < 0.5 else octets


def be_stranger(address: str, number: int, opened: list[socket.socket]) -> None:
    rng = random.Random(number)
    connection = dial(address, number)
    say(connection, stranger(rng))
    ending = rng.randrange(8)
    if ending == 0:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    elif ending == 1:
        opened.append(connection)
        if len(opened) > LEFT_OPEN:
            opened.pop(0).close()
        return
    else:
        message = answers(connection)
        kinds = message and struct.unpack_from("=II", message)
        assert not message or kinds == (REFUSED, len(message) - 16), (number, message)
    connection.close()


def be_session(address: str, number: int) -> None:
    rng = random.Random(number)
    jobs = [[10 * number + 5, number % 2, 0] for number in range(3)]
    if rng.random() < 0.2:
        jobs.insert(rng.randrange(3), wild(rng))  # the same for both
    faulty = rng.randrange(4)  # a rank, both, or none
    members = [dial(address, number) for _ in range(2)]
    for rank, connection in enumerate(members):
        say(connection, member(rng, rank, jobs, faulty=faulty in {rank, 2}))
        if rng.random() < 0.25:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
    for connection in members:
        answers(connection)
        connection.close()


def check_sum(group: Job, number: int) -> None:
    group.ask(*(f"submit int32 {1 + number * 37 % 700} {number + rank}" for rank in range(2)))
    assert group.ask("wait") == [f"FINISHED={2 * number + 1}"] * 2, number


def test_no_input_harms_a_session(
    driver: Path, cache: Path, served: Served, tmp_path: Path
) -> None:
    opened: list[socket.socket] = []
    with serving(cache, tmp_path / "own.json", 2) as own, contextlib.ExitStack() as stack:
        before = len(os.listdir(f"/proc/{own.aggregator}/fd"))
        group = stack.enter_context(started(driver, tmp_path, 2, aggregator=served.address))
        for number in range(FIRST, FIRST + INPUTS):
            if number % 3 == 0:
                be_session(own.address, number)
            else:
                be_stranger(served.address, number, opened)
            if number % 4 == 0:
                check_sum(group, number)
            if number % ROUND == 0:
                place = tmp_path / f"round-{number}"
                with started(driver, place, 2, aggregator=own.address) as honest:
                    check_sum(honest, number)
                    assert [worker.quit() for worker in honest.workers] == [0, 0]
        for connection in opened:
            connection.close()
        assert [worker.quit() for worker in group.workers] == [0, 0]
        assert len(os.listdir(f"/proc/{own.aggregator}/fd")) == before
        lasting, others = served.end()[1], own.end()[1]
    assert (lasting["sessions"], lasting["broken"]) == (1, 0)
    assert lasting["refused"] > INPUTS // 5
    assert others["sessions"] > INPUTS // 5
