"""Compiler caches: settings for hits across work directories, and remote storages."""

from __future__ import annotations

import shutil
from collections.abc import Mapping

from patchgen.core.wheel.sandbox import Sandbox
from patchgen.system.process import LIMIT, Program, capture

_STORAGES = ("remote_storage", "secondary_storage")  # settings of ccache from 4.7 on, and before
_LOCAL = ("file:", "redis+unix:", "#")
_SERVERS = (
    "SCCACHE_REDIS", "SCCACHE_REDIS_ENDPOINT", "SCCACHE_REDIS_CLUSTER_NODES", "SCCACHE_MEMCACHED",
    "SCCACHE_MEMCACHED_ENDPOINT", "SCCACHE_WEBDAV_ENDPOINT", "SCCACHE_BUCKET", "SCCACHE_GCS_BUCKET",
    "SCCACHE_AZURE_CONNECTION_STRING", "SCCACHE_OSS_BUCKET", "SCCACHE_COS_BUCKET",
    "SCCACHE_GHA_ENABLED",
)  # fmt: skip


def list_variables(environ: Mapping[str, str], sandbox: Sandbox) -> dict[str, str]:
    """Return variables for ccache, so that objects serve another work directory.

    CCACHE_BASEDIR makes paths relative. At the fixed path commands are equal anyway, and a value of
    the user would change the paths in objects.
    """
    return {
        "CCACHE_BASEDIR": "" if sandbox.fixed else environ.get("CCACHE_BASEDIR", sandbox.work),
        # By default ccache compares the compiler's modification time, which differs between
        # environments.
        "CCACHE_COMPILERCHECK": environ.get("CCACHE_COMPILERCHECK", "content"),
    }


def find_remote(environ: Mapping[str, str]) -> str | None:
    """Return the setting that names a remote storage, for which a build needs network."""
    for name in _SERVERS:
        if environ.get(name):
            return name
    program = shutil.which("ccache", path=environ.get("PATH"))
    for storage in _STORAGES if program else ():
        answer = capture(Program([str(program), "--get-config", storage], env=environ), limit=LIMIT)
        words = answer.out.decode(errors="surrogateescape").split() if answer.code == 0 else []
        if any(not word.startswith(_LOCAL) for word in words):
            return f"ccache's {storage}"
    return None
