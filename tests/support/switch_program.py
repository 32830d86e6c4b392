"""The program of the switch, compiled once for all tests, and one that runs."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from patchgen.extras.lab import switch
from patchgen.system import native
from patchgen.system.native import cmake
from support.shared import once
from support.switch_clients import Controller, MemifClient

ENOUGH = 60.0
CHECKED = ("-DCMAKE_CXX_COMPILER=clang++", "-DCMAKE_CXX_FLAGS=-Werror=thread-safety")
"""clang alone checks which mutex guards what."""
SANITIZED = "-DSANITIZE=address,undefined"
# What gRPC keeps until the end is no leak of ours, and what is compiled with it is not so compiled.
# A test may put a library of its own in front.
ASAN = "detect_leaks=0:detect_container_overflow=0:verify_asan_link_order=0"


def program(factory: pytest.TempPathFactory) -> str:
    """Compile the program, with sanitizers for all code that handles frames."""

    def make(directory: Path) -> None:
        build = str(directory / "build")
        cmake.build_source(switch.PROJECT.source, build, [*CHECKED, SANITIZED], "the switch")
        (directory / "program").symlink_to(directory / "build" / switch.PROJECT.product)

    return str(once(factory, "switch", make) / "program")


def cache(factory: pytest.TempPathFactory) -> Path:
    """Return a cache that has the switch, as the command compiles it."""
    return once(
        factory,
        "switch-cache",
        lambda place: native.get_or_build(switch.PROJECT, str(place), os.environ),
    )


@pytest.fixture
def switch_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a cache in which commands find the tests' program instead of their own."""

    def make(place: Path) -> None:
        build = os.path.dirname(os.path.realpath(program(tmp_path_factory)))
        with mock.patch.object(native, "_build", return_value=contextlib.nullcontext(build)):
            native.get_or_build(switch.PROJECT, str(place), os.environ)

    monkeypatch.setenv("ASAN_OPTIONS", ASAN)
    return once(tmp_path_factory, "switch-cache-sanitized", make)


class Switch:
    """Running switch with a port for each worker: a socket of memif, or a named port."""

    def __init__(
        self, program: str, directory: Path, workers: int, *options: str, ports: Sequence[str] = ()
    ) -> None:
        self.program = program
        self.sockets = [str(directory / f"port-{rank}") for rank in range(workers)]
        self.counters_path = directory / "counters.json"
        ports = [f"--port={port}" for port in ports or (f"memif:{path}" for path in self.sockets)]
        command = [program, "--listen=127.0.0.1:0", *ports, *options]
        self.errors = directory / "stderr"
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [*command, f"--json={self.counters_path}"],
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "ASAN_OPTIONS": ASAN},
                text=True,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.errors.read_text()
        self.address = json.loads(line)["listening"]
        self.clients: list[MemifClient] = []

    def client(self, rank: int, *, grant: bool = True, **given: int) -> MemifClient:
        """Return a worker's memif client, which is connected."""
        found = MemifClient(self.sockets[rank], **given)  # type: ignore[arg-type]
        self.clients.append(found)
        kind = found.connect(grant=grant)
        assert not found.reason, (kind, found.reason)
        return found

    def join(self, session: int, addresses: list[tuple[int, int]], size: int = 1) -> None:
        """Join all workers, without waiting for each other."""
        controller = Controller(self.address)
        for rank, address in enumerate(addresses):
            controller.session(session, rank, len(addresses), address, size)
        controller.channel.close()

    def stop(self) -> dict[str, Any]:
        """End the switch, and return its counters."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(ENOUGH) == 0, self.errors.read_text()
        counters: dict[str, Any] = json.loads(self.counters_path.read_text())
        return counters

    def close(self) -> None:
        for client in self.clients:
            client.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


Switches = Callable[..., Switch]
"""Starts a switch for so many workers, with options."""
