"""Servers on the loopback that keep objects for compiler caches, and count their answers."""

from __future__ import annotations

import contextlib
import http.server
import re
import shutil
import socket
import subprocess
import threading
from typing import TYPE_CHECKING, Callable

import pytest

from patchgen.system.ports import free_port
from support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

Count = Callable[[], "tuple[int, int]"]
"""Hits and misses so far."""


@contextlib.contextmanager
def serve_http() -> Iterator[tuple[str, Count]]:
    """A server with GET, HEAD, PUT and DELETE; its address, and what counts its answers."""
    objects: dict[str, bytes] = {}
    counted = [0, 0]

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self, code: int, content: bytes = b"") -> None:
            self.send_response(code)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def do_GET(self) -> None:  # named by the base class
            content = objects.get(self.path)
            counted[content is None] += 1
            self.answer(404 if content is None else 200, content or b"")

        do_HEAD = do_GET  # noqa: N815  # likewise

        def do_PUT(self) -> None:  # likewise
            objects[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
            self.answer(201)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/objects", lambda: (counted[0], counted[1])
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def serve_redis() -> Iterator[tuple[str, Count]]:
    """redis-server; its address, and what counts its answers. Skips where there is none."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("no redis-server")
    port = free_port()
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", ""]

    def count() -> tuple[int, int]:
        with socket.create_connection(("127.0.0.1", port)) as asked:
            asked.sendall(b"INFO stats\r\n")
            said = asked.recv(1 << 16).decode()
        found = dict(re.findall(r"(keyspace_\w+):(\d+)", said))
        return int(found["keyspace_hits"]), int(found["keyspace_misses"])

    def answers() -> bool:
        with contextlib.suppress(OSError, KeyError):
            count()
            return True
        return False

    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
        try:
            until(answers)
            yield f"redis://127.0.0.1:{port}", count
        finally:
            server.terminate()
