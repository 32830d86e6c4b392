"""Server on the loopback that keeps objects for compiler caches, and counts its answers."""

from __future__ import annotations

import contextlib
import http.server
import threading
from typing import TYPE_CHECKING, Callable

if TYPE_CHECKING:
    from collections.abc import Iterator

Count = Callable[[], "tuple[int, int]"]
"""Hits and misses so far."""


@contextlib.contextmanager
def serve_objects() -> Iterator[tuple[str, Count]]:
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
