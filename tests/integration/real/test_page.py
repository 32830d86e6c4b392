"""The commands of docs/cluster.md that need the real client library, on hosts with its names."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import cluster, switch_program
from support.configs import with_values
from support.hosts import joined
from support.page_hosts import ADDRESSES, INTERFACE, PageHosts, make_environment
from support.pages import run_by
from support.torch import Plugin

SWITCH, CONFIG = (block.text for block in run_by(__file__))
MACHINE = {"machine": "10.0.0.254"}
START = "torchrun --nnodes=2 --nproc-per-node=1 --node-rank 0 --master-addr=head train.py"


@pytest.fixture
def env(plugin: Plugin, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Environment of the commands, where train.py is a small training."""
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "switchml-patch").symlink_to(switch_program.cache(tmp_path_factory))
    (tmp_path / "train.py").symlink_to(cluster.PROGRAM)
    return make_environment(tmp_path, plugin, cache)


def test_a_switch_on_a_machine_of_its_own(env: dict[str, str], home: Path, tmp_path: Path) -> None:
    addresses = {**ADDRESSES, **MACHINE}
    config = tmp_path / "switchml.cfg"
    values = dict(line.split(" = ", 1) for line in CONFIG.splitlines())
    config.write_text(with_values((home / "switchml.cfg").read_text(), values))
    env = {
        **env, "SWITCHML_CONFIG": str(config), "SWITCHML_FOR_GLOO": "1",
        "GLOO_SOCKET_IFNAME": INTERFACE,
    }  # fmt: skip
    with joined(INTERFACE, [*addresses.values()]) as (_, *sites):
        hosts = cluster.give_names(sites, addresses, tmp_path)
        page = PageHosts(hosts[:2], env)
        with page.serving(hosts[2], SWITCH, tmp_path, "listening on 10.0.0.254:50099"):
            page.run_on_each(START, tmp_path)
    cluster.check_trained(cluster.read_records(tmp_path, 2), 1)
