"""mpirun on hosts of a test."""

from __future__ import annotations

import shlex
from pathlib import Path

from support.cluster import Host

_AGENT = '#!/bin/sh\nshift\nexec {way} sh -c "$*"\n'  # a remote shell, called as AGENT HOST COMMAND
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def make_agent(host: Host, directory: Path) -> Path:
    """Write the program with which mpirun starts its daemon on a host."""
    agent = directory / "agent"
    agent.write_text(_AGENT.format(way=shlex.join(host.command())))
    agent.chmod(0o755)
    return agent
