"""Settings of caches of objects: their servers are reached through relays, and nothing else is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from patchgen.core.wheel.caches import prepare
from patchgen.core.wheel.payload import enclosure
from patchgen.core.wheel.place import Place

if TYPE_CHECKING:
    from pathlib import Path

FIXED = Place("/work", enclosure.PATH)
OPEN = Place("/work", "/work", "refused")


@pytest.fixture
def ccache(tmp_path: Path) -> dict[str, str]:
    """An environment whose ccache has the remote storage of a variable."""
    program = tmp_path / "ccache"
    program.write_text('#!/bin/sh\n[ "$2" = remote_storage ] && echo "$STORAGE"\n')
    program.chmod(0o755)
    return {"PATH": str(tmp_path)}


@pytest.mark.parametrize(
    ("storage", "seen", "relays"),
    [
        ("http://cache.example:8080/a|layout=bazel",
         "http://127.0.0.1:40000/a|layout=bazel", ("40000=cache.example:8080",)),
        ("http://cache.example", "http://127.0.0.1:40000", ("40000=cache.example:80",)),
        ("redis://name:word@10.0.0.7/2 http://b:81/",
         "redis://name:word@127.0.0.1:40000/2 http://127.0.0.1:40001/",
         ("40000=10.0.0.7:6379", "40001=b:81")),
        ("redis+unix:/run/redis.sock file:/srv/cache",
         "redis+unix:/run/redis.sock file:/srv/cache", ()),
    ],
)  # fmt: skip
def test_servers_of_ccache_are_relayed(
    ccache: dict[str, str], storage: str, seen: str, relays: tuple[str, ...]
) -> None:
    caches = prepare({**ccache, "STORAGE": storage}, FIXED)
    assert caches.variables["CCACHE_REMOTE_STORAGE"] == seen
    assert caches.relays == relays
    assert not caches.needs_network


def test_servers_of_sccache_are_relayed_or_need_the_network() -> None:
    caches = prepare({"PATH": "", "SCCACHE_REDIS_ENDPOINT": "tcp://a.example:7000"}, FIXED)
    assert caches.variables["SCCACHE_REDIS_ENDPOINT"] == "tcp://127.0.0.1:40000"
    assert caches.relays == ("40000=a.example:7000",)
    assert not caches.needs_network
    assert prepare({"PATH": "", "SCCACHE_BUCKET": "objects"}, FIXED).needs_network


def test_a_base_directory_changes_no_object_at_the_fixed_path(ccache: dict[str, str]) -> None:
    given = {**ccache, "CCACHE_BASEDIR": os.sep}
    assert prepare(given, FIXED).variables["CCACHE_BASEDIR"] == ""
    assert prepare(given, OPEN).variables["CCACHE_BASEDIR"] == os.sep
    assert prepare(ccache, OPEN).variables["CCACHE_BASEDIR"] == "/work"
    assert prepare(ccache, OPEN).relays == ()


def test_the_contents_of_the_compiler_count_unless_the_user_says_otherwise() -> None:
    assert prepare({"PATH": ""}, FIXED).variables["CCACHE_COMPILERCHECK"] == "content"
    given = {"PATH": "", "CCACHE_COMPILERCHECK": "none"}
    assert prepare(given, FIXED).variables["CCACHE_COMPILERCHECK"] == "none"
