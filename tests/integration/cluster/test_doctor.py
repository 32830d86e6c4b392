"""The doctor on two hosts: it names the host without a switchml.cfg."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from support import cluster
from support.serving import serving
from support.torch import Plugin
from support.waiting import ENOUGH

from patchgen.errors import CheckError
from patchgen.extras.lab.simulator import compose_simulated

PORT = 29400


def torchrun(first: cluster.Host) -> list[str]:
    return [
        "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d",
        "--rdzv-id=1", f"--rdzv-endpoint={first.address}:{PORT}",
    ]  # fmt: skip


def variables(rank: int, first: cluster.Host) -> dict[str, str]:
    own = {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1}
    where = {"MASTER_ADDR": first.address, "MASTER_PORT": PORT}
    return {name: str(value) for name, value in {**own, **where}.items()}


@pytest.mark.parametrize(
    ("broken", "launcher"),
    [
        pytest.param(False, True, id="well", marks=pytest.mark.cluster),
        pytest.param(True, True, id="broken", marks=pytest.mark.cluster),
        pytest.param(True, False, id="broken without a launcher"),
    ],
)
def test_ranks_of_torchrun(
    plugin: Plugin, summing: Path, two_hosts: list[cluster.Host], tmp_path: Path,
    *, broken: bool, launcher: bool,
) -> None:  # fmt: skip
    """Without a launcher, each rank has torchrun's variables, and its exit code is not hidden."""
    first = two_hosts[0]
    config, report = tmp_path / "switchml.cfg", tmp_path / "report.json"
    with serving(summing, tmp_path / "counters", 2, *first.command(), host=first.address) as switch:
        config.write_text(compose_simulated(aggregator=switch.address))
        agents = []
        for number, host in enumerate(two_hosts):
            missing = broken and host.name == "zeus"
            env = cluster.environment(
                SWITCHML_CONFIG=str(tmp_path / "none" if missing else config),
                GLOO_SOCKET_IFNAME="cable",
                **({} if launcher else variables(number, first)),
            )
            agents.append(
                subprocess.Popen(
                    host.command(
                        plugin.python, *(torchrun(first) if launcher else ()),
                        "-m", "switchml_doctor", "--no-times", "--report", report,
                    ),
                    cwd=tmp_path, env=env, text=True,
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                )
            )  # fmt: skip
        lines = [agent.communicate(timeout=ENOUGH) for agent in agents]
    code = CheckError.exit_code if broken and not launcher else int(broken)
    assert [agent.returncode for agent in agents] == [code] * 2, lines
    assert sum(line.startswith("host ") for out, _ in lines for line in out.splitlines()) == 1
    found = json.loads(report.read_text())
    hosts = [one["host"] for one in found["ranks"]]
    # torchrun gives ranks by the names of the hosts.
    assert hosts == (["apollo", "zeus"] if launcher else [host.name for host in two_hosts])
    expected = ("switchml.cfg", ["zeus"]) if broken else ("", [])
    assert (found["check"], found["hosts"]) == expected
