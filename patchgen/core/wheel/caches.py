"""Caches of objects: settings with which another work directory hits, and servers they reach."""

from __future__ import annotations

import shutil
from collections.abc import Mapping

from patchgen.core.wheel.place import Place
from patchgen.system.process import LIMIT, Program, capture

_STORAGES = ("remote_storage", "secondary_storage")  # of ccache: from 4.7 on, and before
_LOCAL = ("file:", "redis+unix:", "#")
_SERVERS = (
    "SCCACHE_REDIS", "SCCACHE_REDIS_ENDPOINT", "SCCACHE_REDIS_CLUSTER_NODES", "SCCACHE_MEMCACHED",
    "SCCACHE_MEMCACHED_ENDPOINT", "SCCACHE_WEBDAV_ENDPOINT", "SCCACHE_BUCKET", "SCCACHE_GCS_BUCKET",
    "SCCACHE_AZURE_CONNECTION_STRING", "SCCACHE_OSS_BUCKET", "SCCACHE_COS_BUCKET",
    "SCCACHE_GHA_ENABLED",
)  # fmt: skip


def list_variables(environ: Mapping[str, str], place: Place) -> dict[str, str]:
    """Lists the variables of the caches of a build.

    At the fixed path, commands are the same for every work directory; else ccache is told what to
    leave out of them. A base directory of the user would change the paths that get into objects.
    """
    return {
        "CCACHE_BASEDIR": "" if place.fixed else environ.get("CCACHE_BASEDIR", place.work),
        # By default the compiler's age counts, and each environment has a compiler of its own.
        "CCACHE_COMPILERCHECK": environ.get("CCACHE_COMPILERCHECK", "content"),
    }


def find_remote(environ: Mapping[str, str]) -> str | None:
    """Finds the setting that names a server of objects, which a build then needs a network for."""
    for name in _SERVERS:
        if environ.get(name):
            return name
    program = shutil.which("ccache", path=environ.get("PATH"))
    for storage in _STORAGES if program else ():
        asked = capture(Program([str(program), "--get-config", storage], env=environ), limit=LIMIT)
        words = asked.out.decode(errors="surrogateescape").split() if asked.code == 0 else []
        if any(not word.startswith(_LOCAL) for word in words):
            return f"ccache's {storage}"
    return None
