"""Caches of objects: settings with which another work directory hits, and ways to their servers."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchgen.system.process import LIMIT, Program, capture

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchgen.core.wheel.place import Place

_STORAGES = ("remote_storage", "secondary_storage")  # of ccache: from 4.7 on, and before
_SERVERS = (
    "SCCACHE_REDIS", "SCCACHE_REDIS_ENDPOINT", "SCCACHE_MEMCACHED", "SCCACHE_MEMCACHED_ENDPOINT",
    "SCCACHE_WEBDAV_ENDPOINT",
)  # fmt: skip
# Servers of sccache that know the name they are called by.
_NAMED = (
    "SCCACHE_BUCKET", "SCCACHE_GCS_BUCKET", "SCCACHE_AZURE_CONNECTION_STRING",
    "SCCACHE_OSS_BUCKET", "SCCACHE_COS_BUCKET", "SCCACHE_GHA_ENABLED",
)  # fmt: skip
_URL = re.compile(r"(http|redis|tcp)(://(?:[^@/|\s]*@)?)([^:/|\s@*\[\]]+)(?::(\d+))?(?=[/|\s]|$)")
_PORTS = {"http": "80", "redis": "6379", "tcp": "6379"}
_FIRST = 40000  # of the ports of a loopback that nobody else uses
_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Caches:
    """Variables for ccache and sccache, and the servers that they reach."""

    variables: Mapping[str, str]
    relays: tuple[str, ...] = ()
    """PORT=HOST:PORT of each server; `variables` name the first."""
    needs_network: bool = False
    """True where a server can only be reached by its own name."""


def prepare(environ: Mapping[str, str], place: Place) -> Caches:
    """Prepares the caches of a build.

    At the fixed path, commands are the same for every work directory; else ccache is told what to
    leave out of them. A base directory of the user would change the paths that get into objects.

    Args:
        environ: of the build.
        place: of the build.
    """
    base = "" if place.fixed else environ.get("CCACHE_BASEDIR", place.work)
    variables = {
        "CCACHE_BASEDIR": base,
        # By default the compiler's age counts, and each environment has a compiler of its own.
        "CCACHE_COMPILERCHECK": environ.get("CCACHE_COMPILERCHECK", "content"),
    }
    if not place.fixed:
        return Caches(variables)
    relays: list[str] = []
    for name, value in {**_ccache(environ), **_sccache(environ)}.items():
        variables[name] = _URL.sub(lambda found: _relay(found, relays), value)
    return Caches(variables, tuple(relays), any(environ.get(name) for name in _NAMED))


def _ccache(environ: Mapping[str, str]) -> dict[str, str]:
    """Servers of ccache, from its variables or its files."""
    program = shutil.which("ccache", path=environ.get("PATH"))
    for storage in _STORAGES if program else ():
        asked = capture(Program([str(program), "--get-config", storage], env=environ), limit=LIMIT)
        if asked.code == 0:
            value = asked.out.decode(errors="surrogateescape").strip()
            return {f"CCACHE_{storage.upper()}": value} if value else {}
    return {}


def _sccache(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: environ[name] for name in _SERVERS if environ.get(name)}


def _relay(found: re.Match[str], relays: list[str]) -> str:
    """The same address at a port of the loopback."""
    scheme, rest, host, port = found.groups()
    relays.append(f"{_FIRST + len(relays)}={host}:{port or _PORTS[scheme]}")
    return f"{scheme}{rest}{_LOOPBACK}:{_FIRST + len(relays) - 1}"
