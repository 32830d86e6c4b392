"""Settings of caches of objects, and those that name a server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from patchgen.core.wheel.caches import find_remote, list_variables
from patchgen.core.wheel.payload import enclosure
from patchgen.core.wheel.sandbox import Sandbox

FIXED = Sandbox("/work", enclosure.PATH)
OPEN = Sandbox("/work", "/work", "refused")
IMAGE = Sandbox(enclosure.PATH, enclosure.PATH, "File exists")


@pytest.mark.parametrize("setting", ["remote_storage", "secondary_storage"])
@pytest.mark.parametrize(
    ("storage", "remote"),
    [
        ("http://cache.example:8080/a|layout=bazel", True),
        ("file:/srv/cache redis://name:word@10.0.0.7/2", True),
        ("redis+unix:/run/redis.sock file:/srv/cache|umask=002", False),
        ("", False),
    ],
)
def test_servers_of_ccache_are_found(
    tmp_path: Path, setting: str, storage: str, *, remote: bool
) -> None:
    program = tmp_path / "ccache"
    program.write_text(f'#!/bin/sh\n[ "$2" = {setting} ] && echo "$STORAGE"\n')
    program.chmod(0o755)
    found = find_remote({"PATH": str(tmp_path), "STORAGE": storage})
    assert found == (f"ccache's {setting}" if remote else None)


@pytest.mark.parametrize("name", ["SCCACHE_REDIS_ENDPOINT", "SCCACHE_BUCKET"])
def test_servers_of_sccache_are_found(name: str) -> None:
    assert find_remote({"PATH": "", name: "tcp://a.example:7000"}) == name
    assert find_remote({"PATH": "", name: ""}) is None


def test_a_base_directory_changes_no_object_at_the_fixed_path() -> None:
    given = {"CCACHE_BASEDIR": os.sep}
    for at_path in (FIXED, IMAGE):
        assert list_variables(given, at_path)["CCACHE_BASEDIR"] == ""
    assert list_variables(given, OPEN)["CCACHE_BASEDIR"] == os.sep
    assert list_variables({}, OPEN)["CCACHE_BASEDIR"] == "/work"


def test_the_contents_of_the_compiler_count_unless_the_user_says_otherwise() -> None:
    assert list_variables({}, FIXED)["CCACHE_COMPILERCHECK"] == "content"
    given = {"CCACHE_COMPILERCHECK": "none"}
    assert list_variables(given, FIXED)["CCACHE_COMPILERCHECK"] == "none"
