"""A memif client: frames to and from a switch by memory that both have, as DPDK's net_memif."""

from __future__ import annotations

import array
import fcntl
import mmap
import os
import socket
import struct
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

ACK, HELLO, INIT, ADD_REGION, ADD_RING, CONNECT, CONNECTED = range(1, 8)
VERSION, MESSAGE = 0x0200, 128
COOKIE, TO_SERVER = 0x3E31F20, 1
LOG2_SLOTS = 8
SLOTS = 1 << LOG2_SLOTS
ROOM = 2048  # bytes of a frame
RING = 128 + 16 * SLOTS
LIMIT = 60.0  # seconds


class Memif:
    """One port with one queue each way; a context that disconnects."""

    def __init__(self, path: str) -> None:
        """Connects to the socket of a switch."""
        size = 2 * RING + 2 * SLOTS * ROOM
        region = os.memfd_create("memif", os.MFD_ALLOW_SEALING)
        os.ftruncate(region, size)
        fcntl.fcntl(region, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        self.memory = mmap.mmap(region, size)
        for ring in (0, 1):
            struct.pack_into("=IHH", self.memory, ring * RING, COOKIE, ring, 0)
            for slot in range(SLOTS):
                at = 2 * RING + (ring * SLOTS + slot) * ROOM
                struct.pack_into("=HHIII", self.memory, self.slot(ring, slot), 0, 0, ROOM, at, 0)
        self.events = [os.eventfd(0, os.EFD_NONBLOCK) for _ in range(2)]
        self.control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.settimeout(LIMIT)
        self.control.connect(path)
        assert self.receive_message(HELLO)
        name = b"test".ljust(32, b"\0")
        self.request(INIT, struct.pack("=HIB24s32s", VERSION, 0, 0, b"", name))
        self.request(ADD_REGION, struct.pack("=HQ", 0, size), region)
        for ring, flags in ((0, TO_SERVER), (1, 0)):
            offered = struct.pack("=HHHIBH", flags, 0, 0, ring * RING, LOG2_SLOTS, 0)
            self.request(ADD_RING, offered, self.events[ring])
        self.send_message(CONNECT, name)
        # The server acknowledges it before or after.
        while self.receive_message(ACK, CONNECTED) != CONNECTED:
            pass
        os.close(region)
        self.sent = self.taken = 0
        self.offer_room(SLOTS)

    @staticmethod
    def slot(ring: int, number: int) -> int:
        return ring * RING + 128 + 16 * (number % SLOTS)

    def send_message(self, kind: int, body: bytes, descriptor: int | None = None) -> None:
        message = struct.pack("=H", kind) + body
        fds = [] if descriptor is None else [descriptor]
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.control.sendmsg([message.ljust(MESSAGE, b"\0")], rights)

    def receive_message(self, *expected: int) -> int:
        message = self.control.recv(MESSAGE)
        kind: int = struct.unpack_from("=H", message)[0] if message else 0
        assert kind in expected, f"message {kind}: {message!r}"
        return kind

    def request(self, kind: int, body: bytes, descriptor: int | None = None) -> None:
        self.send_message(kind, body, descriptor)
        self.receive_message(ACK)

    def offer_room(self, head: int) -> None:
        struct.pack_into("=H", self.memory, RING + 6, head & 0xFFFF)

    def send(self, frame: bytes) -> None:
        """Sends a frame; at most SLOTS may be unread."""
        at = self.slot(0, self.sent)
        place: int = struct.unpack_from("=I", self.memory, at + 8)[0]
        self.memory[place : place + len(frame)] = frame
        struct.pack_into("=HHI", self.memory, at, 0, 0, len(frame))
        self.sent += 1
        struct.pack_into("=H", self.memory, 6, self.sent & 0xFFFF)
        os.eventfd_write(self.events[0], 1)

    def receive(self, limit: float = LIMIT) -> bytes | None:
        """The next frame; None where none comes in time."""
        deadline = time.monotonic() + limit
        while struct.unpack_from("=H", self.memory, RING + 64)[0] == self.taken & 0xFFFF:
            if time.monotonic() > deadline:
                return None
            time.sleep(0.001)
        at = self.slot(1, self.taken)
        size, place = struct.unpack_from("=II", self.memory, at + 4)
        frame = bytes(self.memory[place : place + size])
        struct.pack_into("=I", self.memory, at + 4, ROOM)
        self.taken += 1
        self.offer_room(SLOTS + self.taken)
        return frame

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.control.close()
        for event in self.events:
            os.close(event)
