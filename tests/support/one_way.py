"""Link to an aggregator of the simulator that loses all that one rank sends, or is sent."""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Iterator

from support.chaos.relay import ALL, Relay

_HELLO = 16 + 40  # bytes of the first message of a worker, and of its header
_WELCOME = 16
_RANK = slice(16 + 32, 16 + 34)  # place of the rank in it


class _OneWay(Relay):
    """Relay whose victim's first messages pass: the aggregator has taken the worker."""

    def __init__(self, target: int, victim: int, *, upwards: bool) -> None:
        self._victim, self._upwards = victim, upwards
        super().__init__(target)

    def _passes(self, rank: socket.socket) -> tuple[int, int]:
        hello = rank.recv(_HELLO, socket.MSG_PEEK | socket.MSG_WAITALL)
        if int.from_bytes(hello[_RANK], sys.byteorder) != self._victim:
            return ALL, ALL
        return (_HELLO, ALL) if self._upwards else (ALL, _WELCOME)


@contextlib.contextmanager
def lossy(aggregator: str, victim: int, *, upwards: bool) -> Iterator[str]:
    """Drop the victim's traffic in one direction; yield the address instead of the aggregator's."""
    port = int(aggregator.rpartition(":")[2])
    with contextlib.closing(_OneWay(port, victim, upwards=upwards)) as relay:
        yield f"127.0.0.1:{relay.port}"
