"""The pipes that the ranks write into, and the lines that come out of them."""

from __future__ import annotations

import contextlib
import os
import selectors
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from patchgen.ranks.run.job import Line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Output = Callable[[Line], None]

_READ = 1 << 16  # bytes
_LONGEST = 1 << 20  # bytes of a line that are held back until its end comes


@dataclass
class Stream:
    """One pipe, and the beginning of a line that has no end yet."""

    descriptor: int
    rank: int | None
    error: bool
    pending: bytearray = field(default_factory=bytearray)

    def lines(self, read: bytes) -> Iterator[Line]:
        """The lines that are whole with these bytes; without bytes, what is left.

        A carriage return ends a line too, since progress bars are told apart by it.
        """
        self.pending += read
        # One at the very end may be followed by a newline.
        done = max(self.pending.rfind(b"\n"), self.pending.rfind(b"\r", 0, -1)) + 1
        if not read or (done == 0 and len(self.pending) > _LONGEST):
            done = len(self.pending)
        whole = bytes(self.pending[:done])
        del self.pending[:done]
        for line in whole.splitlines(keepends=True):
            ended = line.endswith((b"\n", b"\r"))
            yield Line(self.rank, self.error, line if ended else line + b"\n")


@contextlib.contextmanager
def of_ranks(directory: str, workers: int) -> Iterator[list[Stream]]:
    """Named pipes RANK.out and RANK.err in a directory, ready to be written to.

    They have no end before the block has: a rank may close its own and another open it again.

    Raises:
        OSError: the file system has no named pipes.
    """
    with contextlib.ExitStack() as stack:
        streams = []
        for rank in range(workers):
            for name, error in (("out", False), ("err", True)):
                path = os.path.join(directory, f"{rank}.{name}")
                os.mkfifo(path)
                descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
                stack.callback(os.close, descriptor)
                streams.append(Stream(descriptor, rank, error))
        yield streams


def pump(
    ranks: Sequence[Stream], others: Sequence[Stream], output: Output, limit: float | None = None
) -> bool:
    """Gives out lines until the other streams have ended, and so all who could write.

    Args:
        ranks: streams without an end.
        others: streams with one; they are taken from the list as they end.
        output: gets each line.
        limit: seconds to do so at most.

    Returns:
        Whether they have ended.
    """
    deadline = None if limit is None else time.monotonic() + limit
    with selectors.DefaultSelector() as selector:
        for stream in (*ranks, *others):
            selector.register(stream.descriptor, selectors.EVENT_READ, stream)
        left = len(others)
        while left:
            timeout = None if deadline is None else deadline - time.monotonic()
            if timeout is not None and timeout <= 0:
                return False
            for key, _ in selector.select(timeout):
                stream = key.data
                read = os.read(stream.descriptor, _READ)
                if not read:
                    selector.unregister(stream.descriptor)
                    left -= 1
                for line in stream.lines(read):
                    output(line)
    for stream in ranks:
        _drain(stream, output)
    return True


def _drain(stream: Stream, output: Output) -> None:
    """What is left in a pipe that nobody writes into any more."""
    with contextlib.suppress(BlockingIOError):
        while True:
            for line in stream.lines(os.read(stream.descriptor, _READ)):
                output(line)
    for line in stream.lines(b""):
        output(line)
