"""Ranks in network namespaces, each behind a link of its own, around a hub.

All of it lives in the network namespace and under the /run of this process, which are its own: the
system removes both when the last process in them has ended, however that came about.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

HUB = "10.83.79.254"
FIRST = "10.83.79.1"
INTERFACE = "wire"
# Seconds for which the rate holds the bucket of tokens, and the queue. With a smaller bucket a busy
# machine that is late by some milliseconds loses rate; the queue holds what TCP has under way.
BURST, QUEUE = 0.010, 0.050
CONGESTION = "reno"  # of TCP: every kernel has it, and lets a namespace choose it


@dataclass(frozen=True)
class Star:
    """Namespaces around a hub."""

    ranks: int

    def at(self, rank: int) -> list[str]:
        """The prefix of a command that runs in a rank's namespace."""
        return _inside(f"rank{rank}")

    @property
    def hub(self) -> list[str]:
        """Command that runs a program in the middle, where no link is slow."""
        return _inside("hub")


def _inside(name: str) -> list[str]:
    return ["nsenter", f"--net=/run/netns/{name}", "--"]


def own() -> None:
    """Makes a /run of its own, where `ip` keeps namespaces.

    Raises:
        OSError: this process has no namespaces of its own, or no right to mount.
    """
    if os.getpid() != 1:
        raise OSError("not the first process in namespaces of its own")
    _run("mount", "-t", "tmpfs", "none", "/run")
    os.mkdir("/run/netns")


@contextlib.contextmanager
def star(ranks: int, rate: float) -> Iterator[Star]:
    """Namespaces whose links have a rate.

    Args:
        ranks: at most 200.
        rate: Mbit/s, in each direction of each link.
    """
    names = ["hub", *(f"rank{rank}" for rank in range(ranks))]
    try:
        for name in names:
            _run("ip", "netns", "add", name)
            _run("ip", "-n", name, "link", "set", "lo", "up")
            _run(*_inside(name), "sh", "-c",
                 f"echo {CONGESTION} > /proc/sys/net/ipv4/tcp_congestion_control")  # fmt: skip
        _run("ip", "-n", "hub", "link", "add", "bridge", "type", "bridge")
        _run("ip", "-n", "hub", "addr", "add", f"{HUB}/24", "dev", "bridge")
        _run("ip", "-n", "hub", "link", "set", "bridge", "up")
        for rank in range(ranks):
            _link(rank, f"rank{rank}", rate)
        yield Star(ranks)
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def _link(rank: int, name: str, rate: float) -> None:
    port = f"port{rank}"
    address = f"{FIRST.rpartition('.')[0]}.{rank + 1}/24"
    _run("ip", "-n", "hub", "link", "add", port, "type", "veth",
         "peer", "name", INTERFACE, "netns", name)  # fmt: skip
    _run("ip", "-n", name, "addr", "add", address, "dev", INTERFACE)
    _run("ip", "-n", "hub", "link", "set", port, "master", "bridge")
    for place, device in (("hub", port), (name, INTERFACE)):
        _run("ip", "-n", place, "link", "set", device, "up")
        _run("tc", "-n", place, "qdisc", "add", "dev", device, "root", "tbf",
             "rate", f"{rate:g}mbit", "burst", _bytes(rate, BURST),
             "limit", _bytes(rate, QUEUE))  # fmt: skip


def _bytes(rate: float, seconds: float) -> str:
    return str(max(int(rate * 1e6 / 8 * seconds), 2**14))


def _run(*words: str) -> None:
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{' '.join(words)}: {done.stderr.strip()}")


@contextlib.contextmanager
def end_after(processes: Sequence[subprocess.Popen[str]]) -> Iterator[None]:
    """Ends the processes when the block is left."""
    try:
        yield
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
