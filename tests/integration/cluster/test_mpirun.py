"""Ranks that Open MPI's mpirun starts on two hosts, with one switchml.cfg for all of them."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from support import cluster
from support.serving import serving
from support.waiting import ENOUGH

from patchgen.client.config import compose_simulated

if TYPE_CHECKING:
    from pathlib import Path

    from support.torch import Plugin

pytestmark = pytest.mark.usefixtures("wanted")

# A remote shell as mpirun calls it: AGENT HOST COMMAND.
_AGENT = '#!/bin/sh\nshift\nexec {way} sh -c "$*"\n'


def test_ranks_of_mpirun_delegate(
    plugin: Plugin, cache: Path, two_hosts: list[cluster.Host], tmp_path: Path
) -> None:
    if shutil.which("mpirun") is None:
        pytest.skip("needs mpirun: make test-cluster")
    first, second = two_hosts
    config, agent = tmp_path / "switchml.cfg", tmp_path / "agent"
    agent.write_text(_AGENT.format(way=shlex.join(second.command())))
    agent.chmod(0o755)
    env = cluster.environment(
        SWITCHML_CONFIG=str(config), GLOO_SOCKET_IFNAME="cable", MASTER_ADDR=first.address,
        MASTER_PORT="29500", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
    )  # fmt: skip
    passed = [word for name in env if name != "HOME" for word in ("-x", name)]
    with serving(cache, tmp_path / "counters", 4, *first.command(), host=first.address) as switch:
        config.write_text(compose_simulated(aggregator=switch.address))
        done = subprocess.run(
            first.command(
                "mpirun", "-np", "4", "--oversubscribe", "--map-by", "slot", "--bind-to", "none",
                "--host", f"{first.address}:2,{second.address}:2",
                "--mca", "plm_rsh_agent", agent, "--mca", "oob_tcp_if_include", "cable",
                "--mca", "btl", "^openib", *passed, plugin.python, cluster.PROGRAM, tmp_path,
            ),
            cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=ENOUGH,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = cluster.read_records(tmp_path, 4)
    cluster.check_delegated(found, 2)
    assert [one["host"] for one in found] == [first.name] * 2 + [second.name] * 2
