"""Servers of HTTP on loopback, for as long as a test needs them."""

from __future__ import annotations

import contextlib
import functools
import http.server
import threading
from collections.abc import Callable, Iterator
from pathlib import Path


class Quiet(http.server.BaseHTTPRequestHandler):
    """Handler of requests that logs none."""

    def log_message(self, *_: object) -> None:
        pass


class _Files(Quiet, http.server.SimpleHTTPRequestHandler):
    pass


@contextlib.contextmanager
def listening(handler: Callable[..., Quiet]) -> Iterator[str]:
    """Yield the URL of a server."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def serve_files(root: Path) -> contextlib.AbstractContextManager[str]:
    """Serve the files of a directory."""
    return listening(functools.partial(_Files, directory=str(root)))
