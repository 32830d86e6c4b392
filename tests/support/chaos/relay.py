"""Relay before a switch that is reached by TCP: what passes it can be lost, or late."""

from __future__ import annotations

import contextlib
import math
import random
import socket
import sys
import threading
import time
from collections.abc import Iterator

ALL = sys.maxsize  # bytes
_READ = 1 << 14  # bytes
_AGAIN = (0.02, 0.2)  # seconds until TCP has sent again what was lost


class Relay:
    """Relay at a port that stays, before a switch whose port changes.

    While all is lost nothing passes, and afterwards TCP sends it again. Where some is lost, it
    comes later, and so does all that is behind it.
    """

    def __init__(self, target: int = 0) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self.target = target
        """Port of the switch; 0 while there is none."""
        self.loss = 0.0
        self._left = math.inf
        self._passing = threading.Event()
        self._passing.set()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @contextlib.contextmanager
    def losing(self, share: float) -> Iterator[None]:
        """Drop a share of the traffic while the block lasts; 1 is all."""
        if share == 1:
            self._passing.clear()
        else:
            self.loss = share
        try:
            yield
        finally:
            self.loss = 0.0
            self._passing.set()

    @contextlib.contextmanager
    def losing_after(self, size: int) -> Iterator[None]:
        """Drop all traffic after so many bytes while the block lasts."""
        self._left = size
        try:
            yield
        finally:
            self._left = math.inf
            self._passing.set()

    def close(self) -> None:
        """End all connections."""
        self.target = 0
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._server.close()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                rank, _ = self._server.accept()
            except OSError:
                return
            self._threads = [one for one in self._threads if one.is_alive()]
            thread = threading.Thread(target=self._connect, args=(rank,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _connect(self, rank: socket.socket) -> None:
        self._passing.wait()
        with rank:
            try:
                switch = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                return
            with switch:
                up, down = self._passes(rank)
                way = (switch, rank, down)
                back = threading.Thread(target=self._pass_on, args=way, daemon=True)
                back.start()
                self._pass_on(rank, switch, up)
                back.join()

    def _passes(self, rank: socket.socket) -> tuple[int, int]:  # noqa: ARG002  # of some relays
        """Return how many bytes of a rank's connection pass to the switch and from it."""
        return ALL, ALL

    def _pass_on(self, giver: socket.socket, taker: socket.socket, passes: int) -> None:
        chance = random.Random(0)
        with contextlib.suppress(OSError):
            while passed := giver.recv(_READ):
                self._left -= len(passed)
                if self._left < 0:
                    self._passing.clear()
                self._passing.wait()
                if self.loss and chance.random() < self.loss:
                    time.sleep(chance.uniform(*_AGAIN))
                taker.sendall(passed[:passes])
                passes = max(0, passes - len(passed))
        self._passing.wait()
        for one in (giver, taker):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
