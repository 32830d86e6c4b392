"""Objects from elsewhere: a server of ccache or sccache serves a second work directory."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from support.object_servers import serve_http, serve_redis

if TYPE_CHECKING:
    from pathlib import Path

    from support.build import Site

pytestmark = pytest.mark.integration

MOST_MISSED = 0.05
CACHES = {
    "ccache-http": ("ccache", serve_http, "CCACHE_REMOTE_STORAGE"),
    "ccache-redis": ("ccache", serve_redis, "CCACHE_REMOTE_STORAGE"),
    "sccache-redis": ("sccache", serve_redis, "SCCACHE_REDIS"),
}


@pytest.mark.parametrize("kind", CACHES)
def test_a_server_of_objects_serves_a_second_work_directory(
    parts: Site, tmp_path: Path, kind: str
) -> None:
    """Each with an empty cache of its own; the second in a deeper directory."""
    program, serve, variable = CACHES[kind]
    found = next(filter(shutil.which, ("sccache", "ccache")), None)  # as `build` looks for them
    if found != program:
        pytest.skip(f"{found or 'no cache'} on PATH, not {program}")
    counts, caches = [(0, 0)], [tmp_path / "first cache", tmp_path / "second cache"]
    places = [parts.elsewhere(tmp_path / "first"), parts.elsewhere(tmp_path / "a" / "second")]
    with serve() as (address, count):
        for place, cache in zip(places, caches):
            place.root.parent.mkdir(exist_ok=True)
            env = {"CCACHE_DIR": str(cache), "CCACHE_BASEDIR": "", "CCACHE_SLOPPINESS": ""}
            place.compile(cwd=None, **env, **{variable: address})
            counts.append(count())
    first = len(re.findall(r"Building C(?:XX)? object", places[0].log))
    assert first >= 5
    assert counts[1][1] >= first, "the first has found the server, and nothing there"
    hits, misses = (after - before for before, after in zip(counts[1], counts[2]))
    assert hits >= first
    assert misses <= MOST_MISSED * hits
    if program == "ccache":
        ask = ["ccache", "--dir", str(caches[1]), "--print-stats"]
        said = subprocess.run(ask, capture_output=True, text=True, check=True).stdout
        assert re.findall(r"^cache_miss\t(\d+)$", said, re.MULTILINE) == ["0"]
