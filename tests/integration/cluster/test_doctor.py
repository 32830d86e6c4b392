"""The doctor on two hosts, by each launcher: it names the host without a switchml.cfg."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from support import cluster
from support.serving import serving
from support.torch import Plugin
from support.waiting import ENOUGH

from patchgen.extras.lab.simulator import compose_simulated


@pytest.mark.parametrize(
    "broken",
    [pytest.param(False, id="well", marks=pytest.mark.cluster), pytest.param(True, id="broken")],
)
def test_ranks_of_torchrun(
    plugin: Plugin, cache: Path, two_hosts: list[cluster.Host], tmp_path: Path, *, broken: bool
) -> None:
    first = two_hosts[0]
    config, report = tmp_path / "switchml.cfg", tmp_path / "report.json"
    with serving(cache, tmp_path / "counters", 2, *first.command(), host=first.address) as switch:
        config.write_text(compose_simulated(aggregator=switch.address))
        agents = []
        for host in two_hosts:
            missing = broken and host.name == "zeus"
            env = cluster.environment(
                SWITCHML_CONFIG=str(tmp_path / "none" if missing else config),
                GLOO_SOCKET_IFNAME="cable",
            )
            agents.append(
                subprocess.Popen(
                    host.command(
                        plugin.python, "-m", "torch.distributed.run", "--nnodes=2",
                        "--nproc-per-node=1", "--rdzv-backend=c10d", "--rdzv-id=1",
                        f"--rdzv-endpoint={first.address}:29400",
                        "-m", "switchml_doctor", "--no-times", "--report", report,
                    ),
                    cwd=tmp_path, env=env, text=True,
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                )
            )  # fmt: skip
        lines = [agent.communicate(timeout=ENOUGH) for agent in agents]
    assert [agent.returncode for agent in agents] == [int(broken)] * 2, lines
    assert sum(line.startswith("host ") for out, _ in lines for line in out.splitlines()) == 1
    found = json.loads(report.read_text())
    hosts = [one["host"] for one in found["ranks"]]
    assert hosts == ["apollo", "zeus"]
    expected = ("switchml.cfg", ["zeus"]) if broken else ("", [])
    assert (found["check"], found["hosts"]) == expected
