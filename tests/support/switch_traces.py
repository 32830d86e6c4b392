"""Seeded traces for the core of the switch: what workers send over a bad network, and worse.

A trace is the input of one run of the switch's core: thousands of frames, of workers that have a
state each. hypothesis is made for short inputs, which it shrinks by many runs; a trace is the same
for the same seed on every machine.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from support.switch_model import HEAD, SLOTS, Model, Outcome, Packet

ADDRESSES = [(0x020000000100 + rank, 0x0A000001 + rank) for rank in range(32)]


@dataclass
class Trace:
    """Input of the filter, and the output that the model expects."""

    model: Model = field(default_factory=Model)
    given: list[bytes] = field(default_factory=list)
    expected: list[bytes] = field(default_factory=list)
    frames: list[bytes] = field(default_factory=list)
    verdicts: Counter[int] = field(default_factory=Counter)

    def begin(
        self, workers: list[tuple[int, int] | None], elements: int, *, fresh: bool = True
    ) -> None:
        self.model.begin(workers, elements, fresh=fresh)
        self.given.append(
            b"B" + bytes([len(workers), fresh]) + elements.to_bytes(2, "big")
            + b"".join(
                bytes([one is not None]) + (one or (0, 0))[0].to_bytes(6, "big")
                + (one or (0, 0))[1].to_bytes(4, "big")
                for one in workers
            )
        )  # fmt: skip

    def take(self, frame: bytes) -> Outcome:
        verdict, number, answers = outcome = self.model.take(frame)
        self.frames.append(frame)
        self.given.append(b"F" + len(frame).to_bytes(2, "big") + frame)
        self.verdicts[verdict] += 1
        self.expected.append(bytes([verdict, number, len(answers)]))
        for rank, answer in answers:
            self.expected.append(bytes([rank]) + len(answer).to_bytes(2, "big") + answer)
        return outcome


class Worker:
    """A client library as it is fixed, with one thread: it sends, waits and sends again."""

    def __init__(
        self, rank: int, outstanding: int, first_slot: int, jobs: list[np.ndarray]
    ) -> None:
        self.rank = rank
        self.outstanding, self.first_slot = outstanding, first_slot
        self.jobs = jobs
        """Values of each job as [packet][element]; the first two elements' octets double as
        exponents."""
        self.sums: list[dict[int, tuple[bytes, tuple[int, int]]]] = [{} for _ in jobs]
        self.job = self.shift = 0
        self.waiting: dict[int, bytes] = {}

    @property
    def done(self) -> bool:
        return self.job == len(self.jobs)

    def start(self) -> list[bytes]:
        """Return the first packets of the next job, if there is one."""
        if self.done:
            return []
        return [self._packet(number) for number in range(self._batch)]

    @property
    def _batch(self) -> int:
        return min(self.outstanding, len(self.jobs[self.job]))

    def _packet(self, number: int) -> bytes:
        place = (number + self.shift) % (2 * self.outstanding)
        values = self.jobs[self.job][number].astype(">u4").tobytes()
        exponents = exponents_of(self.jobs[self.job][number])
        frame = Packet(
            *ADDRESSES[self.rank], self.job % 256, number.to_bytes(4, "little"),
            self.first_slot + place % self.outstanding, int(place >= self.outstanding),
            exponents, values,
        ).frame()  # fmt: skip
        self.waiting[number] = frame
        return frame

    def receive(self, frame: bytes) -> list[bytes]:
        """Receive an answer, and return the frames sent next."""
        number = int.from_bytes(frame[44:48], "little")
        if self.done or frame[43] != self.job % 256 or number in self.sums[self.job]:
            return []
        exponents = (_signed(frame[50]), _signed(frame[51]))
        self.sums[self.job][number] = frame[HEAD:], exponents
        del self.waiting[number]
        total = len(self.jobs[self.job])
        if number + self._batch < total:
            return [self._packet(number + self._batch)]
        if len(self.sums[self.job]) < total:
            return []
        self.shift = (self.shift + total) % (2 * self.outstanding)
        self.job += 1
        return self.start()


def _signed(octet: int) -> int:
    return octet - 256 if octet > 127 else octet


def exponents_of(values: np.ndarray) -> tuple[int, int]:
    return _signed(int(values[0]) & 255), _signed(int(values[1]) & 255)


@dataclass(frozen=True)
class Network:
    """Loses and doubles what is sent. The packets of a worker stay in their order, as a switch
    that sums needs it; answers need not."""

    random: random.Random
    loss: float
    double: float
    inwards: list[list[bytes]]
    outwards: list[list[bytes]]

    def put(self, line: list[bytes], frames: list[bytes]) -> None:
        for frame in frames:
            if self.random.random() >= self.loss:
                line += [frame] * (2 if self.random.random() < self.double else 1)

    def step(self, trace: Trace, worker: Worker) -> None:
        """Deliver a packet or an answer, or let a worker's timeout expire."""
        mine, answers = self.inwards[worker.rank], self.outwards[worker.rank]
        chance = self.random.random()
        if mine and chance < 0.6:
            for to, answer in trace.take(mine.pop(0))[2]:
                self.put(self.outwards[to], [answer])
        elif answers and chance < 0.95:
            self.put(mine, worker.receive(answers.pop(self.random.randrange(len(answers)))))
        elif worker.waiting and (chance > 0.98 or not any([*self.inwards, *self.outwards])):
            self.put(mine, [self.random.choice([*worker.waiting.values()])])


def honest(seed: int) -> Trace:
    """Simulate workers that sum jobs over a lossy network.

    Each worker gets each sum, and rightly, else the model is wrong.
    """
    random_ = random.Random(seed)
    values = np.random.default_rng(seed)
    count = random_.choice([1, 2, 2, 2, 3, 3, 5, 32] if seed % 50 == 0 else [1, 2, 2, 3, 3, 4])
    elements = 256 if seed % 20 == 0 else 64
    outstanding = random_.randint(1, 4)
    highest = SLOTS - outstanding
    first_slot = random_.choice([0, random_.randint(0, highest), highest])
    sizes = [random_.randint(1, 3 * outstanding) for _ in range(random_.randint(1, 3))]
    # All octets are drawn: sums wrap, exponents have both signs.
    jobs = [values.integers(0, 2**32, (count, size, elements), dtype=np.uint32) for size in sizes]
    loss = random_.choice([0.0, 0.1, 0.3])

    trace = Trace()
    trace.begin([*ADDRESSES[:count]], elements)
    workers = [
        Worker(rank, outstanding, first_slot, [job[rank] for job in jobs]) for rank in range(count)
    ]
    network = Network(random_, loss, loss, [[] for _ in workers], [[] for _ in workers])
    for worker in workers:
        network.put(network.inwards[worker.rank], worker.start())
    while not all(worker.done for worker in workers) or any(network.inwards):
        network.step(trace, random_.choice(workers))
    for worker in workers:
        _hold(worker, jobs)
    return trace


def _hold(worker: Worker, jobs: list[np.ndarray]) -> None:
    for job, sums in zip(jobs, worker.sums):
        for number in range(job.shape[1]):
            total, exponents = sums[number]
            assert total == job[:, number].sum(axis=0, dtype=np.uint32).astype(">u4").tobytes()
            first, second = zip(*(exponents_of(one) for one in job[:, number]))
            assert exponents == (max(first), max(second))


def hostile(seed: int, source: Trace) -> Trace:
    """Return a trace of honest workers, mixed with arbitrary frames."""
    random_ = random.Random(~seed)
    elements, workers = source.model.elements, [*source.model.workers]
    trace = Trace()
    trace.begin(workers, elements)
    for frame in source.frames:
        chance = random_.random()
        if chance < 0.5:
            trace.take(frame)
        if chance < 0.2:
            trace.take(random_.choice(source.frames))  # stale, or from a job to come
        elif chance < 0.6:
            trace.take(_damaged(random_, frame))
        elif chance < 0.62:
            present = [one if random_.random() < 0.8 else None for one in workers]
            size = random_.choice([elements, 64, 256])
            trace.begin(present, size, fresh=size != elements or random_.random() < 0.5)
        elif chance < 0.7:
            trace.take(random_.randbytes(random_.randrange(1200)))
    return trace


def _damaged(random_: random.Random, frame: bytes) -> bytes:
    changed = bytearray(frame)
    kind = random_.randrange(6)
    if kind == 0:
        at = random_.randrange(HEAD)
        changed[at] ^= 1 << random_.randrange(8)
    elif kind == 1:
        changed[42] = random_.randrange(256)
    elif kind == 2:
        changed[48:50] = random_.choice([
            random_.randrange(65536), SLOTS, SLOTS - 1, SLOTS | 0x8000, SLOTS - 1 | 0x8000, 65535,
        ]).to_bytes(2, "big")  # fmt: skip
    elif kind == 3:
        del changed[random_.randrange(len(changed)) :]
    else:
        changed += random_.randbytes(random_.randrange(1, 900))
    if kind == 5 or (kind == 3 and len(changed) >= 42 and random_.random() < 0.5):
        # All lengths in it agree.
        changed[16:18] = (len(changed) - 14).to_bytes(2, "big")
        changed[38:40] = (len(changed) - 34).to_bytes(2, "big")
    return bytes(changed)


def traces(seeds: range) -> Trace:
    """Return an honest and a hostile trace of each seed, as one."""
    whole = Trace()
    for seed in seeds:
        source = honest(seed)
        for trace in (source, hostile(seed, source)):
            whole.given += trace.given
            whole.expected += trace.expected
            whole.verdicts.update(trace.verdicts)
    return whole
