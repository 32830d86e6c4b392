"""A training with torchft: a replica is killed, the other one goes on in its process."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import cluster
from support.serving import serving
from support.torch import REPOSITORY, Plugin
from support.waiting import ENOUGH

from patchgen.extras.lab.simulator import compose_simulated
from patchgen.system.ports import free_port

pytestmark = pytest.mark.cluster

PROGRAM = REPOSITORY / "tests" / "payload" / "torchft_train.py"
REPLICAS, STEPS, KILLED = 2, 12, 5  # as there
PARAMETERS = 4


@contextlib.contextmanager
def lighthouse(frameworks: Path) -> Iterator[str]:
    """Runs torchft's server that finds the replicas while the block lasts; gives its URL."""
    address = f"127.0.0.1:{free_port()}"
    command = [str(frameworks.with_name("torchft_lighthouse")), f"--bind={address}"]
    command += [f"--min_replicas={REPLICAS}", "--join_timeout_ms=1000"]
    with subprocess.Popen([*command, "--heartbeat_timeout_ms=2000"]) as process:
        try:
            yield f"http://{address}"
        finally:
            process.kill()


@pytest.mark.parametrize("failover", ["0", "1"])
@pytest.mark.parametrize("victim", [0, 1])
def test_a_replica_that_is_killed(
    frameworks: Path, plugin: Plugin, cache: Path, tmp_path: Path, victim: int, failover: str
) -> None:
    """torchrun starts it again, and it has the weights of the other one."""
    config = tmp_path / "switchml.cfg"
    command = [str(frameworks), "-m", "torch.distributed.run", "--standalone", "--max-restarts=1"]
    command += [str(PROGRAM), str(tmp_path)]
    with (
        serving(cache, tmp_path / "counters", REPLICAS) as switch,
        lighthouse(frameworks) as url,
    ):
        config.write_text(compose_simulated(aggregator=switch.address))
        env = cluster.environment(
            TORCHFT_LIGHTHOUSE=url, SWITCHML_CONFIG=str(config), SWITCHML_FAILOVER=failover,
            PYTHONPATH=str(plugin.package.parent), GLOO_SOCKET_IFNAME="lo", SWITCHML_FOR_GLOO="1",
        )  # fmt: skip
        launchers = [
            subprocess.Popen([*command, str(replica), str(victim)], env=env)
            for replica in range(REPLICAS)
        ]
        try:
            assert [launcher.wait(ENOUGH) for launcher in launchers] == [0] * REPLICAS
        finally:
            for launcher in launchers:
                launcher.terminate()
                launcher.wait()
    found = [json.loads((tmp_path / f"{one}.json").read_text()) for one in range(REPLICAS)]
    assert found[0]["weights"] == found[1]["weights"]
    for one in found:
        assert one["right"]
        assert one["seen"][-1][1] == STEPS
        calls, over_gloo = one["seen"][-1][2:]
        assert calls >= (STEPS - KILLED) * PARAMETERS
        assert over_gloo == 0
    survivor, restarted = found[1 - victim]["seen"], found[victim]["seen"]
    assert survivor[0][0] == restarted[0][0] == 0
    assert [before for before, after, *_ in survivor if after > before] == [*range(STEPS)]
    assert restarted[0][1] >= KILLED
