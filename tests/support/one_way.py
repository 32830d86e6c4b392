"""Link to an aggregator of the simulator that loses all that one rank sends, or is sent."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

_HELLO = 16 + 40  # bytes of the first message of a worker, and of its header
_WELCOME = 16
_RANK = 16 + 32  # place of the rank in it


@contextlib.contextmanager
def lossy(aggregator: str, victim: int, *, upwards: bool) -> Iterator[str]:
    """Relay to an aggregator, dropping the victim's traffic in one direction; yield the address.

    The first messages of both pass: the aggregator has taken the worker.
    """
    host, _, port = aggregator.rpartition(":")
    stopping = threading.Event()
    threads: list[threading.Thread] = []
    ends: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            while not stopping.is_set():
                with contextlib.suppress(OSError):
                    connection, _ = listener.accept()
                    ends.append(connection)
                    threads.append(threading.Thread(target=serve, args=[connection]))
                    threads[-1].start()

        def serve(connection: socket.socket) -> None:
            with contextlib.suppress(OSError, struct.error):
                hello = _read(connection, _HELLO)
                other = socket.create_connection((host, int(port)))
                ends.append(other)
                other.sendall(hello)
                connection.sendall(_read(other, _WELCOME))
                hit = struct.unpack_from("=H", hello, _RANK)[0] == victim
                up = threading.Thread(target=pump, args=[connection, other, hit and upwards])
                threads.append(up)
                up.start()
                pump(other, connection, hit and not upwards)

        threads.append(threading.Thread(target=accept))
        threads[0].start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            stopping.set()
            for end in [listener, *ends]:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()
            for thread in threads:
                thread.join()


def pump(source: socket.socket, target: socket.socket, lost: bool) -> None:  # noqa: FBT001
    with contextlib.suppress(OSError):
        while part := source.recv(1 << 16):
            if not lost:
                target.sendall(part)
        target.shutdown(socket.SHUT_RDWR)


def _read(connection: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size:
        part = connection.recv(size - len(content))
        if not part:
            raise OSError("closed")
        content += part
    return content
