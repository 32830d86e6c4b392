"""The switch once more, from the description of the wire and of the slots, for the tests.

It knows nothing of how the product does it: slots are dictionaries, frames are made by struct.
SwitchML's own program needs Intel's SDE, which is not free, and a Tofino or its simulation.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import numpy as np

MAC, IP = 0x02534D4C0001, 0xC613FFFE
FOREIGN, MALFORMED, SUMMED, COMPLETE, AGAIN, KNOWN = 255, 0, 1, 2, 3, 4
SLOTS = 8192
SIZES = {64: 1, 256: 3}
ETHERNET, IPV4, UDP, OWN = ">6s6sH", ">BBHHHBBHII", ">HHHH", ">BB4sHbb"
HEAD = 52


def checksum(data: bytes) -> int:
    total: int = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def mac(number: int) -> bytes:
    return number.to_bytes(6, "big")


@dataclass
class Packet:
    """Fields of a frame. Values are in network order."""

    mac: int
    ip: int
    job: int
    id: bytes
    slot: int
    set: int
    exponents: tuple[int, int]
    values: bytes
    source: int = 4000
    to: tuple[int, int, int] = (MAC, IP, 0xBEE0)

    def frame(self) -> bytes:
        """Return frame of a client library: without the checksums, which are left to its card."""
        size = SIZES[len(self.values) // 4]
        to_mac, to_ip, to_port = self.to
        return b"".join((
            struct.pack(ETHERNET, mac(to_mac), mac(self.mac), 0x0800),
            struct.pack(
                IPV4, 0x45, 0, HEAD - 14 + len(self.values), 7, 0, 128, 17, 0, self.ip, to_ip
            ),
            struct.pack(UDP, self.source, to_port, HEAD - 34 + len(self.values), 0xABCD),
            struct.pack(OWN, 16 + size, self.job, self.id, self.set << 15 | self.slot,
                        *self.exponents),
            self.values,
        ))  # fmt: skip


def answer(
    frame: bytes, worker: tuple[int, int], exponents: tuple[int, int], values: bytes
) -> bytes:
    """Return the sum for one worker, from the frame that asked for it."""
    source, port, _, _ = struct.unpack_from(UDP, frame, 34)
    size, job, number, pool, _, _ = struct.unpack_from(OWN, frame, 42)
    own = struct.pack(OWN, 16 + (size & 7), job, number, pool, *exponents) + values
    length = 8 + len(own)
    pseudo = struct.pack(">IIBBH", IP, worker[1], 0, 17, length)
    udp = struct.pack(UDP, port, source, length, 0)
    udp = struct.pack(UDP, port, source, length, checksum(pseudo + udp + own) or 0xFFFF)
    fields = [0x45, 0, 20 + length, 0, 0, 64, 17, 0, IP, worker[1]]
    fields[7] = checksum(struct.pack(IPV4, *fields))
    return (
        struct.pack(ETHERNET, mac(worker[0]), mac(MAC), 0x0800)
        + struct.pack(IPV4, *fields)
        + udp
        + own
    )


@dataclass
class Half:
    """A slot in one of its sets."""

    bitmap: int = 0
    counter: int = 0
    exponents: tuple[int, int] = (0, 0)
    values: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.uint32))


Outcome = tuple[int, int, list[tuple[int, bytes]]]
"""The verdict, the set, and the frames by rank."""


class Model:
    def __init__(self) -> None:
        self.workers: list[tuple[int, int] | None] = []
        self.elements = 0
        self.slots: dict[int, tuple[Half, Half]] = {}

    def begin(self, workers: list[tuple[int, int] | None], elements: int, *, fresh: bool) -> None:
        self.workers, self.elements = list(workers), elements
        if fresh:
            self.slots = {}

    def rank(self, frame: bytes) -> int | None:
        if len(frame) < 42:
            return None
        to, sender, kind = struct.unpack_from(ETHERNET, frame)
        version, _, _, _, _, _, protocol, _, source, target = struct.unpack_from(IPV4, frame, 14)
        port = struct.unpack_from(UDP, frame, 34)[1]
        if (to, kind, version, protocol, target) != (mac(MAC), 0x0800, 0x45, 17, IP):
            return None
        if port & 0xFFF0 != 0xBEE0:
            return None
        who = (int.from_bytes(sender, "big"), source)
        return self.workers.index(who) if who in self.workers else None

    def take(self, frame: bytes) -> Outcome:
        rank = self.rank(frame)
        if rank is None:
            return FOREIGN, 0, []
        if len(frame) != HEAD + 4 * self.elements:
            return MALFORMED, 0, []
        length = struct.unpack_from(">H", frame, 16)[0]
        datagram = struct.unpack_from(">H", frame, 38)[0]
        kind, _, _, pool, *exponents = struct.unpack_from(OWN, frame, 42)
        wanted = (len(frame) - 14, len(frame) - 34, 1, SIZES[self.elements])
        if (length, datagram, kind >> 4, kind & 7) != wanted or pool & 0x7FFF >= SLOTS:
            return MALFORMED, 0, []
        return self._sum(frame, rank, pool, (exponents[0], exponents[1]))

    def _sum(self, frame: bytes, rank: int, pool: int, exponents: tuple[int, int]) -> Outcome:
        number = pool >> 15
        halves = self.slots.setdefault(pool & 0x7FFF, (Half(), Half()))
        half, other = halves[number], halves[1 - number]
        before = half.bitmap
        new = not before >> rank & 1
        half.bitmap |= 1 << rank
        other.bitmap &= ~(1 << rank)
        values = np.frombuffer(frame, dtype=">u4", offset=HEAD).astype(np.uint32)
        if before == 0:
            half.values, half.exponents = values, exponents
        elif new:
            half.values = half.values + values  # wraps
            half.exponents = (
                max(half.exponents[0], exponents[0]), max(half.exponents[1], exponents[1]),
            )  # fmt: skip
        read = half.counter
        if new:
            half.counter = len(self.workers) - 1 if read == 0 else read - 1
        everybody = [(each, worker) for each, worker in enumerate(self.workers) if worker]
        if new and (read == 1 or len(self.workers) == 1):
            verdict, to = COMPLETE, everybody
        elif not new and read == 0:
            verdict, to = AGAIN, [one for one in everybody if one[0] == rank]
        else:
            return (SUMMED if new else KNOWN), number, []
        data = half.values.astype(">u4").tobytes()
        return verdict, number, [
            (each, answer(frame, worker, half.exponents, data)) for each, worker in to
        ]  # fmt: skip
