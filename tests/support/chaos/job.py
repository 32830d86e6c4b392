"""Ranks of one training: started, watched, and started again from their checkpoint."""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from support.launcher import Launcher, Started

_PROGRESS = struct.Struct("6q")


@dataclass(frozen=True)
class Progress:
    """State of a rank, as payload/chaos.py writes it."""

    pid: int
    steps: int
    calls: int
    """Allreduces by SwitchML."""
    failovers: int
    gloo: int
    """Allreduces by Gloo, for all reasons but their own kind."""
    returns: int
    """Times that the ranks used the switch again; -1 where they cannot."""

    @classmethod
    def read(cls, directory: Path) -> Progress | None:
        """Read a rank's last record; None before its first one."""
        try:
            numbers = (directory / "progress").read_bytes()
        except FileNotFoundError:
            return None
        return cls(*_PROGRESS.unpack(numbers)) if len(numbers) == _PROGRESS.size else None


@dataclass(frozen=True)
class Work:
    """Training that several attempts bring to its end."""

    network: str
    steps: int
    checkpoint: Path


@dataclass
class Attempt:
    """Ranks that run, from their start to the end of the last of them."""

    started: Sequence[Started]
    killed: set[int] = field(default_factory=set)
    """Ranks that were killed on purpose."""
    codes: dict[int, int] = field(default_factory=dict)
    """Exit codes of those that have ended."""
    signalled: bool = False
    """Whether they got a signal to end."""
    begun: float = field(default_factory=time.monotonic)
    """When they were started."""
    ended: float | None = None
    """When the first of them ended."""

    def poll(self) -> bool:
        """Record which ranks have ended; return whether all have."""
        for number, rank in enumerate(self.started):
            if number not in self.codes:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.codes[number] = rank.process.wait(0.001)
                    self.ended = self.ended or time.monotonic()
        return len(self.codes) == len(self.started)

    def progress(self) -> list[Progress]:
        """Return the last record of each rank; empty until all have begun."""
        found = [Progress.read(rank.cwd) for rank in self.started]
        known = [one for one in found if one is not None]
        return known if len(known) == len(found) else []

    def send(self, rank: int, number: signal.Signals) -> bool:
        """Send a rank a signal; return False if it is not running."""
        found = Progress.read(self.started[rank].cwd)
        self.poll()
        if found is None or rank in self.codes:
            return False
        if number == signal.SIGKILL:
            self.killed.add(rank)
        os.kill(found.pid, number)
        return True

    def ask(self) -> None:
        """Ask the ranks to write a checkpoint and to end."""
        self.signalled = True
        (self.started[0].cwd / "end").touch()

    def end(self) -> None:
        """Kill the running ranks."""
        for rank in self.started:
            found = Progress.read(rank.cwd)
            if found is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(found.pid, signal.SIGCONT)
            rank.process.kill()
        for number, rank in enumerate(self.started):
            self.codes[number] = rank.process.wait()


@dataclass(frozen=True)
class Starter:
    """Starts the ranks of a training around a switch."""

    launch: Launcher
    world: int
    config: Mapping[str, object]
    env: Mapping[str, str]
    timeout: float
    """Limit of the group, in seconds."""

    def start(self, work: Work) -> Attempt:
        """Start an attempt, which continues from the checkpoint."""
        arguments = {**vars(work), "checkpoint": str(work.checkpoint)}
        return Attempt(
            self.launch.begin(
                "chaos:train",
                self.world,
                arguments=arguments,
                config=self.config,
                env=self.env,
                timeout=self.timeout,
            )
        )

    def explain(self, network: str, steps: int) -> Started:
        """Start the undisturbed training, which needs no switch."""
        arguments = {"network": network, "steps": steps, "world": self.world}
        (started,) = self.launch.begin("chaos:explain", 1, arguments=arguments, env=self.env)
        return started
