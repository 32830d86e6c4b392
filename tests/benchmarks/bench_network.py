"""Allreduces of ranks behind slow links, compared with bytes / rate: the table of docs/network.md.

Run by `make bench-network`. Each rank, and the switch, has its own network namespace.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.hosts import joined
from support.serving import serving
from support.torch import Plugin, built_plugin, checked

from patchgen.extras.lab.simulator import compose_simulated

RANK = Path(__file__).parents[1] / "payload" / "network_rank.py"
NUMEL, ROUNDS = 4 << 20, 5  # 16 MiB
RATE = 100  # Mbit/s
LIMIT = 900  # seconds for the ranks
FRAME, PAYLOAD = 1514, 1448  # bytes of a full Ethernet frame, and of TCP's data in it
BITS = {"float32": {}, **{f"{n} bits": {"SWITCHML_QUANTIZATION_BITS": str(n)} for n in (8, 4)}}
GROUPS = {
    "stock Gloo": None,
    **{
        f"SwitchML {name}{words}": {"SWITCHML_REQUIRE": "1", **variables, **failover}
        for name, variables in BITS.items()
        for words, failover in (("", {}), (", failover", {"SWITCHML_FAILOVER": "1"}))
    },
}


@pytest.fixture(scope="session")
def plugin(torch: Path, tmp_path_factory: pytest.TempPathFactory) -> Plugin:
    """Compiled as users compile it."""
    home = tmp_path_factory.mktemp("simulator")
    checked("simulator", "install", "-o", home)
    return built_plugin(torch, home, tmp_path_factory, "plugin", environ={})


@pytest.mark.parametrize("world", [2, 4, 8])
def test_network(plugin: Plugin, world: int, tmp_path: Path) -> None:
    addresses = [f"10.83.79.{1 + number}" for number in range(world + 1)]
    command = [str(plugin.python), str(RANK), str(NUMEL), str(ROUNDS), json.dumps(GROUPS)]
    env = {
        **os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "wire", "MASTER_PORT": "29500",
        "MASTER_ADDR": addresses[0], "WORLD_SIZE": str(world),
    }  # fmt: skip
    with contextlib.ExitStack() as stack:
        _, *hosts, hub = stack.enter_context(joined("wire", addresses, [RATE] * world))
        cache, target = tmp_path / "cache", tmp_path / "counters"
        served = serving(cache, target, world, *hub.enter, host=addresses[-1])
        switch = stack.enter_context(served).address
        ranks = []
        for rank, host in enumerate(hosts):
            config = tmp_path / f"{rank}.cfg"
            config.write_text(compose_simulated(rank=rank, workers=world, aggregator=switch))
            own = {**env, "RANK": str(rank), "SWITCHML_CONFIG": str(config)}
            entered = [*host.enter, *command]
            ranks.append(subprocess.Popen(entered, env=own, stdout=subprocess.PIPE, text=True))
            stack.callback(ranks[-1].kill)
        lines = [rank.communicate(timeout=LIMIT)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * world
    found: dict[str, Any] = json.loads(lines[0])
    stock = statistics.median(found["stock Gloo"]["seconds"])
    for name, group in found.items():
        ring = 2 * (world - 1) / world * 4 * NUMEL
        sent = group["bytes"] or ring
        rated = 8 * sent / (RATE * 1e6 * PAYLOAD / FRAME) + group["one"]
        median = statistics.median(group["seconds"])
        print(f"| {world} | {name} | {median:.2f} s | {rated:.2f} s | {median / stock:.2f} |")
    print(f"load of the machine: {os.getloadavg()[0]:.1f}")
