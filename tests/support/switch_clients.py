"""Clients of a switch in Python: one of the controller, and one of memif.

The real client library joins and sends as well, in integration/real, where its source is at hand.
These clients need none, and may also do what it never does: leave in the middle of a handshake,
send broken messages, write wrong indices into the shared memory. libmemif, a library for C, refuses
to.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import socket
import struct
import time

import grpc

ENOUGH = 60.0  # seconds that no call takes
COOKIE, VERSION = 0x3E31F20, 0x200
ACK, HELLO, INIT, ADD_REGION, ADD_RING, CONNECT, CONNECTED, DISCONNECT = range(1, 9)
RING, SLOT = 128, 16  # bytes
NEXT, QUIET, TO_SERVER = 1, 1, 1


def encoded(fields: dict[int, int]) -> bytes:
    """Return a message of protobuf whose fields are integers, by number."""

    def varint(value: int) -> bytes:
        octets = b""
        while value > 127:
            octets += bytes([value & 127 | 128])
            value >>= 7
        return octets + bytes([value])

    return b"".join(varint(number << 3) + varint(value) for number, value in fields.items())


def decoded(message: bytes) -> dict[int, int]:
    fields: dict[int, int] = {}
    numbers, value, shift = [], 0, 0
    for octet in message:
        value |= (octet & 127) << shift
        shift += 7
        if octet < 128:
            numbers.append(value)
            value = shift = 0
    for tag, number in zip(numbers[::2], numbers[1::2]):
        fields[tag >> 3] = number
    return fields


class Controller:
    """A worker's connection to the controller, of its own."""

    def __init__(self, address: str) -> None:
        own = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]
        self.channel = grpc.insecure_channel(address, own)

    def begin(self, method: str, fields: dict[int, int]) -> grpc.Future:
        """Call SERVICE/METHOD of package switchml_proto."""
        call = self.channel.unary_unary(
            f"/switchml_proto.{method}", request_serializer=encoded, response_deserializer=decoded
        )
        return call.future(fields, timeout=ENOUGH, wait_for_ready=True)

    def call(self, method: str, fields: dict[int, int]) -> dict[int, int]:
        found: dict[int, int] = self.begin(method, fields).result()
        return found

    def session(self, session: int, rank: int, workers: int, address: tuple[int, int],
                size: int = 1) -> dict[int, int]:  # fmt: skip
        fields = {1: session, 2: rank, 3: workers, 4: address[0], 5: address[1], 7: size}
        return self.call("Session/UdpSession", fields)


class MemifClient:
    """A client of memif. Its memory is `memory`: rings first, then a buffer for each slot."""

    def __init__(self, path: str, *, queues: int = 1, log2: int = 5, buffer: int = 2048,
                 sealed: bool = True, size: int | None = None) -> None:  # fmt: skip
        self.queues, self.slots, self.buffer = queues, 1 << log2, buffer
        self.ring_bytes = RING + SLOT * self.slots
        rings = 2 * queues * self.ring_bytes
        total = rings + 2 * queues * self.slots * buffer
        self.file = os.memfd_create("region", os.MFD_ALLOW_SEALING)
        os.ftruncate(self.file, total)
        if sealed:
            fcntl.fcntl(self.file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        self.memory = mmap.mmap(self.file, total)
        # Each access is one load or store. Those of struct are several, with a 0 in between.
        self.numbers = memoryview(self.memory).cast("H")
        for ring in range(2 * queues):
            struct.pack_into("<IHH", self.memory, ring * self.ring_bytes, COOKIE, 0, 0)
            for slot in range(self.slots):
                offset = rings + (ring * self.slots + slot) * buffer
                self.set_slot(ring, slot, 0, 0, buffer, offset)
        self.events = [os.eventfd(0, os.EFD_NONBLOCK) for _ in range(2 * queues)]
        self.used = [0] * (2 * queues)  # the tail of each ring, as far as it was looked at
        self.control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.settimeout(ENOUGH)
        self.control.connect(path)
        self.reason = ""
        self.size = total if size is None else size

    def close(self) -> None:
        self.control.close()
        for number in (self.file, *self.events):
            with contextlib.suppress(OSError):
                os.close(number)

    def tell(self, kind: int, body: bytes = b"", descriptor: int | None = None) -> None:
        message = struct.pack("<H", kind) + body
        socket.send_fds(
            self.control, [message.ljust(128, b"\0")], [] if descriptor is None else [descriptor]
        )

    def hear(self) -> int:
        """Return the kind of the next message; 0 at the end."""
        message = self.control.recv(128)
        if not message:
            return 0
        kind: int = struct.unpack_from("<H", message)[0]
        if kind == DISCONNECT:
            self.reason = message[6:102].split(b"\0")[0].decode()
        return kind

    def offers(self) -> list[tuple[int, bytes, int | None]]:
        """Return messages that say what it has: the kind, the body and a descriptor of each."""
        offers: list[tuple[int, bytes, int | None]] = [
            (INIT, struct.pack("<HIB", VERSION, 0, 0), None),
            (ADD_REGION, struct.pack("<HQ", 0, self.size), self.file),
        ]
        for number, event in enumerate(self.events):
            flags = TO_SERVER if number < self.queues else 0
            log2 = self.slots.bit_length() - 1
            body = struct.pack(
                "<HHHIBH", flags, number % self.queues, 0, number * self.ring_bytes, log2, 0
            )
            offers.append((ADD_RING, body, event))
        return [*offers, (CONNECT, b"", None)]

    def connect(self, *, grant: bool = True) -> int:
        """Send all offers; return the kind of the last answer."""
        assert self.hear() == HELLO
        kind = ACK
        for message in self.offers():
            if kind != DISCONNECT:
                self.tell(*message)
                kind = self.hear()
        if kind == CONNECTED and grant:
            for queue in range(self.queues):
                self.grant(queue)
        return kind

    def _get(self, ring: int, at: int) -> int:
        return self.numbers[(ring * self.ring_bytes + at) // 2]

    def set_slot(self, ring: int, slot: int, *fields: int) -> None:
        """Write a slot's flags, region, bytes and offset."""
        at = ring * self.ring_bytes + RING + SLOT * (slot % self.slots)
        struct.pack_into("<HHII", self.memory, at, *fields)

    def slot(self, ring: int, slot: int) -> tuple[int, int, int, int]:
        at = ring * self.ring_bytes + RING + SLOT * (slot % self.slots)
        flags, region, size, offset = struct.unpack_from("<HHII", self.memory, at)
        return flags, region, size, offset

    def head(self, ring: int) -> int:
        return self._get(ring, 6)

    def set_head(self, ring: int, head: int) -> None:
        """Offer slots to the switch, and interrupt it where it wants that."""
        self.numbers[(ring * self.ring_bytes + 6) // 2] = head & 0xFFFF
        if ring < self.queues and not self._get(ring, 4) & QUIET:
            os.eventfd_write(self.events[ring], 1)

    def grant(self, queue: int) -> None:
        """Offer all slots for answers."""
        self.set_head(self.queues + queue, self.slots)

    def send(self, frame: bytes, queue: int = 0) -> None:
        parts = [frame[at : at + self.buffer] for at in range(0, len(frame), self.buffer)]
        head = self.head(queue)
        deadline = time.monotonic() + ENOUGH
        while self.slots - (head - self._get(queue, 64) & 0xFFFF) < len(parts):
            assert time.monotonic() < deadline
            time.sleep(0.001)
        for number, part in enumerate(parts):
            _, region, _, offset = self.slot(queue, head + number)
            flags = NEXT if number + 1 < len(parts) else 0
            self.memory[offset : offset + len(part)] = part
            self.set_slot(queue, head + number, flags, region, len(part), offset)
        self.set_head(queue, head + len(parts))

    def receive(self, queue: int = 0) -> bytes:
        """Return the next answer."""
        ring, frame = self.queues + queue, b""
        deadline = time.monotonic() + ENOUGH
        while True:
            while self._get(ring, 64) == self.used[ring] & 0xFFFF:
                assert time.monotonic() < deadline
                time.sleep(0.001)
            flags, region, size, offset = self.slot(ring, self.used[ring])
            frame += self.memory[offset : offset + size]
            self.set_slot(ring, self.used[ring], 0, region, self.buffer, offset)
            self.used[ring] += 1
            self.set_head(ring, self.used[ring] + self.slots)
            if not flags & NEXT:
                return frame

    def nothing(self, queue: int = 0) -> bool:
        ring = self.queues + queue
        return self._get(ring, 64) == self.used[ring] & 0xFFFF

    def idle(self, queue: int) -> bool:
        """Return whether the switch has taken all frames."""
        return self._get(queue, 64) == self.head(queue)
