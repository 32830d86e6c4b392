"""Trainings that use Gloo: of Accelerate, DeepSpeed, Lightning, transformers, FSDP2; and of Ray."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from support import cluster, metrics
from support.hosts import INTERFACE
from support.pages import ROOT, blocks
from support.serving import serving
from support.torch import REPOSITORY, Plugin
from support.waiting import ENOUGH, until

from patchgen.extras.lab.simulator import compose_simulated

pytestmark = pytest.mark.cluster

PROGRAM = REPOSITORY / "tests" / "payload" / "framework_train.py"
STEPS = 16 * 4 // 4  # of each rank: batches, epochs, and ranks that share a data set


@pytest.mark.parametrize(
    "framework", ["accelerate", "deepspeed", "lightning", "transformers", "fsdp"]
)
def test_an_ordinary_training_delegates(
    frameworks: Path, plugin: Plugin, cache: Path, tmp_path: Path, framework: str
) -> None:
    config, counted = tmp_path / "switchml.cfg", tmp_path / "metrics"
    counted.mkdir()
    env = cluster.environment(
        SWITCHML_CONFIG=str(config), SWITCHML_FOR_GLOO="1", SWITCHML_METRICS=str(counted),
        PYTHONPATH=str(plugin.package.parent), GLOO_SOCKET_IFNAME="lo", DS_ACCELERATOR="cpu",
        TORCH_EXTENSIONS_DIR=str(tmp_path / "extensions"),
    )  # fmt: skip
    if framework == "deepspeed":
        env["SWITCHML_GROUP"] = "2"
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=4"]
    with serving(cache, tmp_path / "counters", 4) as switch:
        config.write_text(compose_simulated(aggregator=switch.address))
        done = subprocess.run(
            [frameworks, *torchrun, PROGRAM, framework, tmp_path],
            cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=ENOUGH,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    ranks = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(4)]
    for rank in ranks:
        assert rank["weights"] == ranks[0]["weights"]
        assert rank["losses"][-1] < rank["losses"][0] / 2
        assert rank["size"] == 4
        assert len(rank["losses"]) == STEPS
    message = metrics.read(counted)
    assert len(message) == 4
    for one in message:
        assert one.value("switchml_allreduces_total") >= STEPS
        left = one.value("switchml_gloo_allreduces_total", reason="group")
        assert left == 0 or (framework == "deepspeed" and left < STEPS)


@contextlib.contextmanager
def ray_cluster(
    hosts: Sequence[cluster.Host], ray: Path, directory: Path, env: Mapping[str, str]
) -> Iterator[str]:
    """Address of Ray on hosts, each with two processors for it, while the block lasts."""
    address = f"{hosts[0].address}:6379"
    with contextlib.ExitStack() as stack:
        # The paths of its sockets are short.
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp"))
        head = ["--head", "--port=6379", f"--temp-dir={scratch}", "--include-dashboard=false"]
        for host in hosts:
            own = head if host is hosts[0] else [f"--address={address}"]
            own = [*own, f"--node-ip-address={host.address}", "--num-cpus=2", "--block"]
            log = directory / f"{host.name}.log"
            start_ray(stack, host.command(ray, "start", *own), log, env)
        yield address


def start_ray(
    stack: contextlib.ExitStack, command: Sequence[str], log: Path, env: Mapping[str, str]
) -> None:
    """Starts Ray on a host, which the stack ends."""
    with log.open("w") as file:
        started = stack.enter_context(
            subprocess.Popen(command, env=dict(env), stdout=file, stderr=file)
        )
    stack.callback(started.terminate)
    until(lambda: "block forever" in log.read_text(), started)


def test_the_page_of_ray_delegates(
    frameworks: Path,
    plugin: Plugin,
    cache: Path,
    two_hosts: list[cluster.Host],
    tmp_path: Path,
) -> None:
    page = blocks(ROOT / "docs" / "cluster.md")
    (script,) = (block for block in page if "TorchTrainer" in block.text)
    (tmp_path / "train.py").write_text(script.text)
    config, first = tmp_path / "switchml.cfg", two_hosts[0]
    env = cluster.environment(
        HOME=str(tmp_path), SWITCHML_CONFIG=str(config), SWITCHML_REQUIRE="1",
        GLOO_SOCKET_IFNAME=INTERFACE, PYTHONPATH=str(plugin.package.parent),
        RAY_AUTH_MODE="disabled", RAY_USAGE_STATS_ENABLED="0", RAY_DEDUP_LOGS="0",
    )  # fmt: skip
    with serving(cache, tmp_path / "counters", 4, *first.command(), host=first.address) as switch:
        config.write_text(compose_simulated(aggregator=switch.address))
        with ray_cluster(two_hosts, frameworks.with_name("ray"), tmp_path, env) as address:
            done = subprocess.run(
                first.command(frameworks, "train.py"), env={**env, "RAY_ADDRESS": address},
                cwd=tmp_path, capture_output=True, text=True, check=False, timeout=ENOUGH,
            )  # fmt: skip
    assert done.returncode == 0, done.stderr
    delegated = re.findall(r"RayTrainWorker pid=(\d+).* 1 delegated$", done.stdout, re.MULTILINE)
    assert len({*delegated}) == 4, done.stdout
