"""Open MPI's mpirun on hosts of a test."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from support.cluster import Host
from support.hosts import INTERFACE
from support.waiting import ENOUGH

_AGENT = '#!/bin/sh\nshift\nexec {way} sh -c "$*"\n'  # a remote shell, called as AGENT HOST COMMAND
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def run(
    hosts: Sequence[Host],
    each: int,
    command: Sequence[str | Path],
    directory: Path,
    env: Mapping[str, str],
) -> subprocess.CompletedProcess[str]:
    """Runs so many of a command on each of two hosts, all with the same environment."""
    if shutil.which("mpirun") is None:
        pytest.skip("needs mpirun: make test-cluster")
    first, second = hosts
    agent = make_agent(second, directory)
    env = {**env, **ROOT, "MASTER_ADDR": first.address}
    passed = [word for name in env if name != "HOME" for word in ("-x", name)]
    return subprocess.run(
        first.command(
            "mpirun", "-np", str(2 * each), "--oversubscribe", "--map-by", "slot",
            "--bind-to", "none", "--host", f"{first.address}:{each},{second.address}:{each}",
            "--mca", "plm_rsh_agent", agent, "--mca", "oob_tcp_if_include", INTERFACE,
            "--mca", "btl", "^openib", *passed, *command,
        ),
        cwd=directory, env=env, capture_output=True, text=True, check=False, timeout=ENOUGH,
    )  # fmt: skip


def make_agent(host: Host, directory: Path) -> Path:
    """Makes the program by which mpirun starts its daemon on a host."""
    agent = directory / "agent"
    agent.write_text(_AGENT.format(way=shlex.join(host.command())))
    agent.chmod(0o755)
    return agent
