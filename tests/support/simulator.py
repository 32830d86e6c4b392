"""Workers of the simulator as processes under remote control, and a reference for its sums.

A `Worker` is a process of cpp/simulator_driver.cc: it reads commands from stdin, and answers each
with a line. The client library has one context for a process, so several workers are several
processes. A test submits, waits, kills and restarts each of them in an order of its own, and
compares sums with numpy. A framework for C++ such as GoogleTest runs a test in one process, where
it can do neither. Real collectives of torch are tested in integration/ranks.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import struct
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Union
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray

from patchgen.extras.lab.simulator import compose_simulated, install
from patchgen.system.ports import free_port
from patchgen.system.process import run
from support.configs import with_values
from support.shared import once

Floats = NDArray[np.float32]
Tensor = Union[Floats, NDArray[np.int32]]

CPP = Path(__file__).parents[1] / "cpp"
ANSWER_S = 120.0  # far more than any command takes: a hang fails the test
NEVER_MS = 600_000  # a limit that no test waits for
LINK = ("-lswitchml-client", "-lglog", "-lboost_program_options", "-lpthread")
# Of every simulator without a sanitizer: compiled once a run. The last one changes its bytes.
FLAGS = "-Werror -fno-inline"
SANITIZERS = {
    "thread": ("-fsanitize=thread",),
    "address": (
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
        f"-fsanitize-ignorelist={CPP / 'unchecked.txt'}",
    ),
}
"""Options of SANITIZING."""
SANITIZING = "clang++"  # takes half of the time that g++ takes under sanitizers
# Optimized, it would take three times as long to compile; lines are what a report names.
SANITIZED = ("-O0", "-g1")
STRICT = ("-std=c++17", "-O1", "-g1", "-Wall", "-Wextra", "-Werror")
INT32_MAX = 2**31 - 1
HELLO, WELCOME, REFUSED, JOB, EXPONENTS, DATA, GOODBYE, FAILED = range(0x5357FF01, 0x5357FF09)
"""Kinds of frames."""
HEADER = struct.Struct("=IIQ")
"""A frame's kind, the size of what follows, and its number."""


@dataclass
class Home:
    """An installed simulator, made once for all processes."""

    prefix: Path
    driver: Path
    installed: list[str]


def _compiler(sanitizer: str) -> tuple[str, str]:
    """Return the compiler of a simulator with a sanitizer or none, and its flags."""
    if not sanitizer:
        return "c++", FLAGS
    return SANITIZING, " ".join(("-O0 -Werror", *SANITIZERS[sanitizer]))


def installed_prefix(factory: pytest.TempPathFactory, sanitizer: str = "") -> Path:
    """Return an installed simulator without its driver."""

    def make(directory: Path) -> None:
        compiler, flags = _compiler(sanitizer)
        with mock.patch.dict(os.environ, CXX=compiler, CXXFLAGS=flags):
            installed = install(directory / "a home", debug=bool(sanitizer))
        (directory / "installed.json").write_text(json.dumps([*map(str, installed)]))

    return once(factory, f"simulator{sanitizer}", make) / "a home"


def installed_home(factory: pytest.TempPathFactory, sanitizer: str = "") -> Home:
    prefix = installed_prefix(factory, sanitizer)

    def make(directory: Path) -> None:
        compiler, flags = _compiler(sanitizer)
        source = [*STRICT, *flags.split(), str(CPP / "simulator_driver.cc")]
        paths = ["-I", str(prefix / "include"), "-L", str(prefix / "lib")]
        run([compiler, *source, *paths, "-o", str(directory / "driver"), *LINK], limit=None)

    driver = once(factory, f"driver{sanitizer}", make) / "driver"
    return Home(prefix, driver, json.loads(prefix.with_name("installed.json").read_text()))


class Worker:
    """Process of the driver in a directory of its own."""

    def __init__(self, driver: Path, directory: Path, config: str | None) -> None:
        directory.mkdir(parents=True)
        self.directory = directory
        if config is not None:
            (directory / "switchml.cfg").write_text(config)
        self._pending = b""
        with (directory / "stderr").open("wb") as errors:
            self.process = subprocess.Popen(
                [driver],
                cwd=directory,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,
            )

    @property
    def errors(self) -> str:
        return (self.directory / "stderr").read_text()

    def tell(self, command: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n".encode())

    def answer(self, timeout: float = ANSWER_S) -> str:
        assert self.process.stdout is not None
        deadline = time.monotonic() + timeout
        while b"\n" not in self._pending:
            left = max(0.0, deadline - time.monotonic())
            if not select.select([self.process.stdout], [], [], left)[0]:
                raise TimeoutError(f"no answer after {timeout} s; stderr: {self.errors}")
            read = os.read(self.process.stdout.fileno(), 4096)
            assert read, f"ended with {self.process.wait()}; stderr: {self.errors}"
            self._pending += read
        line, self._pending = self._pending.split(b"\n", 1)
        return line.decode()

    def ask(self, command: str) -> str:
        self.tell(command)
        return self.answer()

    def quit(self) -> int:
        self.tell("quit")
        return self.process.wait(ANSWER_S)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


@dataclass
class Job:
    """The workers of one job, by rank."""

    workers: list[Worker]
    port: int

    def __getitem__(self, rank: int) -> Worker:
        return self.workers[rank]

    def ask(self, *commands: str) -> list[str]:
        """Send one command to all or one to each, at the same time, and return the answers."""
        if len(commands) == 1:
            commands *= len(self.workers)
        for worker, command in zip(self.workers, commands):
            worker.tell(command)
        return [worker.answer() for worker in self.workers]

    def start(self) -> None:
        assert self.ask("start") == ["true"] * len(self.workers)

    def check_sum(self, numel: int, value: int) -> None:
        """Sum elements of int32 that are the same on all workers."""
        self.ask(f"submit int32 {numel} {value}")
        size = len(self.workers)
        assert self.ask("wait") == [f"FINISHED={size * value}"] * size

    def reduce(self, inputs: Sequence[Tensor], mode: str = "") -> list[bytes]:
        commands = []
        for worker, tensor in zip(self.workers, inputs):
            (worker.directory / "in").write_bytes(tensor.tobytes())
            commands.append(f"reduce {tensor.dtype} in out {mode}")
        assert self.ask(*commands) == ["FINISHED"] * len(inputs)
        return [(worker.directory / "out").read_bytes() for worker in self.workers]


@contextlib.contextmanager
def job(
    driver: Path,
    directory: Path,
    workers: int,
    *,
    bypass: bool = False,
    limit_ms: int = NEVER_MS,
    values: Mapping[str, int] = MappingProxyType({}),
    aggregator: str | None = None,
) -> Iterator[Job]:
    """Yield processes with the configs of one job, not yet started; killed at the end.

    Rank 0 is the switch, where `aggregator` does not say where another process is.
    """
    waits = {"timeout": limit_ms, "timeout_threshold": 1, "timeout_threshold_increment": 1}
    given = {**waits, **values}
    port = int(aggregator.rpartition(":")[2]) if aggregator else free_port()
    configs = [
        compose_simulated(
            rank=rank,
            workers=workers,
            controller_port=port,
            prepostprocessor="bypass" if bypass else "cpu_exponent_quantizer",
            aggregator=aggregator,
        )
        for rank in range(workers)
    ]
    with contextlib.ExitStack() as stack:
        processes = []
        for rank, config in enumerate(configs):
            worker = Worker(driver, directory / str(rank), with_values(config, given))
            stack.callback(worker.close)
            processes.append(worker)
        yield Job(processes, port)


@contextlib.contextmanager
def started(driver: Path, directory: Path, workers: int, **given: Any) -> Iterator[Job]:
    """Yield processes as job() does, which have joined."""
    with job(driver, directory, workers, **given) as group:
        group.start()
        yield group


def frame(kind: int, body: bytes = b"", number: int = 0) -> bytes:
    return HEADER.pack(kind, len(body), number) + body


def hello(
    rank: int = 0, *, packet_numel: int = 256, outstanding: int = 256, threads: int = 4,
    workers: int = 2, limit_ms: int = 60_000, version: int = 2, quantizer: int = 1,
    magic: int = 0x736D6C2D73696D31,
) -> bytes:  # fmt: skip
    """Return first bytes of a worker on its connection; numbers are cut to their size."""
    wide = (magic, limit_ms, packet_numel, version, outstanding)
    narrow = (value % 2**16 for value in (rank, workers, threads))
    values = [value % 2 ** (64 if place < 3 else 32) for place, value in enumerate(wide)]
    return frame(HELLO, struct.pack("=QQQIIHHHBB", *values, *narrow, quantizer % 256, 0))


def received(connection: socket.socket, size: int) -> bytes:
    found = connection.recv(size, socket.MSG_WAITALL) if size else b""
    assert len(found) == size
    return found


def packets(numel: int, threads: int = 4, packet_numel: int = 256) -> Iterator[slice]:
    """Yield the packets of a tensor: contiguous slices for the threads, each cut from its start."""
    begin = 0
    for thread in range(threads):
        end = begin + numel // threads + (thread < numel % threads)
        for first in range(begin, end, packet_numel):
            yield slice(first, min(first + packet_numel, end))
        begin = end


def fixed_point_sum(inputs: list[Floats], cuts: Iterator[slice]) -> Floats:
    """Compute SwitchML's sum independently, from its description."""
    workers = len(inputs)
    result = np.empty_like(inputs[0])
    for cut in cuts:
        parts = np.stack([tensor[cut] for tensor in inputs])
        if not np.isfinite(parts).all():
            result[cut] = np.nan
            continue
        largest = float(np.abs(parts).max())
        normal = largest >= float(np.finfo(np.float32).tiny)
        exponent = int(np.frexp(largest)[1]) if normal else -126
        with np.errstate(over="ignore"):
            factor = np.float32(INT32_MAX / (workers * 2.0**exponent))
        if not np.isfinite(factor):
            result[cut] = 0
            continue
        scaled = (parts * factor).astype(np.float64)
        rounded = np.trunc(scaled + np.copysign(0.5, scaled)).astype(np.int64)
        limit = INT32_MAX // workers
        total = rounded.clip(-limit, limit).sum(axis=0)
        with np.errstate(over="ignore"):
            result[cut] = total.astype(np.float32) / factor
    return result
