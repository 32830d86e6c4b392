"""Row about the switchml.cfg that a run here would read."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from patchgen.checks import Check
from patchgen.client import config
from patchgen.system import paths
from patchgen.wheel.check.site import reason, shown

if TYPE_CHECKING:
    from patchgen.client.config import Config
    from patchgen.client.library import Archive
    from patchgen.wheel.check.site import Site

_NAME = "run: switchml.cfg"


def check(
    site: Site, archive: Archive | None, host: str, etc: str = "/etc"
) -> tuple[Check, Config | None]:
    """The row, and the configuration where it can be used.

    Args:
        site: where a run would be started.
        archive: the client library; None where it cannot be used.
        host: the name of this machine.
        etc: the directory of the system's own configuration.
    """
    named = site.environ.get("SWITCHML_CONFIG")
    looked = config.places(named, host, site.cwd, etc)
    for path in looked:
        try:
            found = config.read(config.load(path))
            exposed = "" if named or path == looked[0] else _exposed(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            return _told(f"{shown(path)}: {reason(error)}; it has to be a file that can be read")
        except ValueError as error:
            return _told(f"{shown(path)}: {paths.printable(str(error))}; mend it")
        if exposed:
            return _told(f"{shown(path)}: {exposed}; no rank takes it")
        about = f"{shown(path)}: rank {found.rank} of {found.workers}, backend {found.backend}"
        return Check(_NAME, found.doubts(archive), about, required=False), found
    tried = ", ".join(map(shown, looked))
    return _told(f"none of {tried}; write one for each rank, or allreduce stays with Gloo")


def _exposed(path: str) -> str:
    """Advice where others than this user and root could have written a file; else empty.

    The delegate has the same rule.
    """
    real = os.path.realpath(path)
    for one in (os.path.dirname(path), os.path.dirname(real), real):
        status = os.stat(one)
        if status.st_uid not in (os.geteuid(), 0):
            return f"{shown(one)} belongs to user {status.st_uid}; name the file in SWITCHML_CONFIG"
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return (
                f"{shown(one)} can be written by others; run `chmod go-w {shown(one)}`, "
                "or name the file in SWITCHML_CONFIG"
            )
    return ""


def _told(problem: str) -> tuple[Check, None]:
    return Check(_NAME, (problem,), required=False), None
