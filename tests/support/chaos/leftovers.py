"""Things that ranks and switches may leave behind: processes, sockets, shared memory, files."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from support.waiting import descendants

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_LISTENS = "0A"  # in /proc/net/tcp
_SETTLE = 10.0  # seconds that the last of it may take
_SHARED = Path("/dev/shm")  # noqa: S108  # nothing is made there


class Leftovers:
    """Compares what is there with what there was. Orphans become children of this process."""

    def __init__(self, temporary: Path, networks: Sequence[int] = ()) -> None:
        """Record what exists, also in the network namespaces of the processes `networks`."""
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
        self._temporary = temporary
        self._networks = networks
        self._before = set(self._list(set()))

    def find(self, pids: Collection[int]) -> list[str]:
        """Return what is left over, a line each, after waiting some seconds.

        Shared memory may have the numbers of the processes `pids` in its name.
        """
        deadline = time.monotonic() + _SETTLE
        while (found := set(self._list(pids)) - self._before) and time.monotonic() < deadline:
            time.sleep(0.1)
        ctypes.CDLL(None).prctl(_SUBREAPER, 0, 0, 0, 0)
        return sorted(found)

    def _list(self, pids: Collection[int]) -> Iterator[str]:
        processes = {os.getpid(), *descendants(os.getpid()), *self._list_on_hosts()}
        for pid in processes:
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
                if words:  # else it has ended
                    yield f"process {pid}: {words.decode(errors='replace')[:100]}"
        own = {f"socket that listens on {address}" for address in _own_sockets(processes)}
        yield from own | self._sockets_on_hosts()
        for path in _SHARED.iterdir():
            if any(int(number) in pids for number in re.findall(r"\d+", path.name)):
                yield f"shared memory {path}"
        for path in self._temporary.rglob("*"):
            yield f"file {path}"

    def _list_on_hosts(self) -> Iterator[int]:
        networks = {os.readlink(f"/proc/{pid}/ns/net") for pid in self._networks}
        for place in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if os.readlink(place / "ns" / "net") in networks:
                    yield int(place.name)

    def _sockets_on_hosts(self) -> set[str]:
        found = set()
        for host, pid in enumerate(self._networks):
            found |= {f"socket on host {host} at {address}" for _, address in _listening(pid)}
            packet = Path(f"/proc/{pid}/net/packet").read_text().splitlines()[1:]
            found |= {f"packet socket on host {host}: {line}" for line in packet}
        return found


def _own_sockets(pids: Collection[int]) -> Iterator[str]:
    """Yield the addresses in this network on which processes listen."""
    own = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for opened in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    own.add(os.readlink(opened))
    for inode, address in _listening(os.getpid()):
        if f"socket:[{inode}]" in own:
            yield address


def _listening(pid: int) -> Iterator[tuple[str, str]]:
    """Yield inode and address of the TCP sockets that listen in a process's network."""
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        if words[3] == _LISTENS:
            yield words[9], words[1]
