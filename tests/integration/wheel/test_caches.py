"""Objects from elsewhere: a server of ccache serves a second work directory."""

from __future__ import annotations

import contextlib
import http.server
import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Callable

import pytest
from support.build import Site

MOST_MISSED = 0.05
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


def test_a_server_of_objects_serves_a_second_work_directory(parts: Site, tmp_path: Path) -> None:
    """Each with an empty cache of its own; the second in a deeper directory."""
    if shutil.which("ccache") is None or shutil.which("sccache"):
        pytest.skip("build does not choose ccache here")
    counts, caches = [(0, 0)], [tmp_path / "first cache", tmp_path / "second cache"]
    places = [parts.elsewhere(tmp_path / "first"), parts.elsewhere(tmp_path / "a" / "second")]
    with serve_objects() as (address, count):
        for place, cache in zip(places, caches):
            place.root.parent.mkdir(exist_ok=True)
            env = {"CCACHE_DIR": str(cache), "CCACHE_BASEDIR": "", "CCACHE_SLOPPINESS": ""}
            said = place.compile(cwd=None, **env, CCACHE_REMOTE_STORAGE=address)
            assert re.search(r"seen at .*, with your network for ccache's \w+_storage\n", said)
            state = json.loads((place.work / "state.json").read_text())
            assert state["stages"]["compile"]["made"]["network"] == "host"
            counts.append(count())
    first = len(re.findall(r"Building C(?:XX)? object", places[0].log))
    assert first >= 5
    assert counts[1][1] >= first, "the first has found the server, and nothing there"
    hits, misses = (after - before for before, after in zip(counts[1], counts[2]))
    assert hits >= first
    assert misses <= MOST_MISSED * hits
    ask = ["ccache", "--dir", str(caches[1]), "--print-stats"]
    said = subprocess.run(ask, capture_output=True, text=True, check=True).stdout
    assert re.findall(r"^cache_miss\t(\d+)$", said, re.MULTILINE) == ["0"]
