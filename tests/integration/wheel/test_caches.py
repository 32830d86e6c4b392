"""Objects from elsewhere: a server of ccache serves a second work directory."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from support.object_servers import serve_objects

if TYPE_CHECKING:
    from pathlib import Path

    from support.build import Site

pytestmark = pytest.mark.integration

MOST_MISSED = 0.05


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
