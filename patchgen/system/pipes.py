"""Pipes of programs, and what happens to their output."""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Callable
from typing import IO

Take = Callable[[bytes], object]

_READ = 1 << 16  # bytes
_WRITTEN = 1 << 12  # bytes that a writable pipe takes at once
_LONGEST = 1 << 20  # bytes of an unfinished line that are held back


class Tail:
    """Output of a program: all of it, or the last `most` bytes."""

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._read = bytearray()

    def __call__(self, read: bytes) -> None:
        """Add output."""
        self._read += read
        if self._most is not None and len(self._read) > 2 * self._most:
            del self._read[: -self._most]

    def __bytes__(self) -> bytes:
        return bytes(self._read if self._most is None else self._read[-self._most :])


class Lines:
    """Passes output on line by line, each with its end.

    A carriage return ends a line too, because progress bars use it.
    """

    def __init__(self, output: Take) -> None:
        self._output = output
        self._pending = bytearray()

    def __call__(self, read: bytes) -> None:
        """Pass on complete lines; empty input flushes the rest."""
        self._pending += read
        # A carriage return at the very end may be followed by a newline.
        done = max(self._pending.rfind(b"\n"), self._pending.rfind(b"\r", 0, -1)) + 1
        if not read or (done == 0 and len(self._pending) > _LONGEST):
            done = len(self._pending)
        whole = bytes(self._pending[:done])
        del self._pending[:done]
        for line in whole.splitlines(keepends=True):
            self._output(line if line.endswith((b"\n", b"\r")) else line + b"\n")


class Pipes:
    """This process's ends of pipes, with the receivers of their output."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._unwritten: dict[int, tuple[IO[bytes], bytes]] = {}
        self._left = 0

    def read(self, descriptor: int, take: Take) -> None:
        """Call `take` with the output as it comes, and with b"" at the end."""
        self._selector.register(descriptor, selectors.EVENT_READ, take)
        self._left += 1

    def write(self, file: IO[bytes], data: bytes) -> None:
        """Write the data, then close the file; drop the rest if the reader is gone."""
        self._unwritten[file.fileno()] = file, data
        self._selector.register(file, selectors.EVENT_WRITE)

    @property
    def open(self) -> bool:
        """Whether a pipe that is read has not ended."""
        return self._left > 0

    def turn(self, limit: float) -> None:
        """Transfer what is possible now, after waiting at most `limit` seconds.

        Exceptions of receivers pass through.
        """
        if not self.open:
            time.sleep(limit)
            return
        for key, _ in self._selector.select(limit):
            if key.events == selectors.EVENT_WRITE:
                self._write(key.fd)
                continue
            read = os.read(key.fd, _READ)
            if not read:
                self._selector.unregister(key.fd)
                self._left -= 1
            key.data(read)

    def _write(self, descriptor: int) -> None:
        file, rest = self._unwritten[descriptor]
        try:
            rest = rest[os.write(descriptor, rest[:_WRITTEN]) :]
        except BrokenPipeError:
            rest = b""
        self._unwritten[descriptor] = file, rest
        if not rest:
            self._selector.unregister(descriptor)
            del self._unwritten[descriptor]
            file.close()

    def close(self) -> None:
        """Unregister all pipes, without closing them."""
        self._selector.close()
