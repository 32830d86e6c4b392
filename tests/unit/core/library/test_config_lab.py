"""The configuration of a rank around a software switch."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from patchgen.core.library import config


def compose(rank: int, **given: Any) -> config.Config:
    device = f"net_memif0,socket=/place/port-{rank},"
    return config.read(config.compose_lab(device, 4711, rank=str(rank), cores="1", **given))


def test_it_sums_and_each_rank_has_its_own_port_and_address() -> None:
    ranks = [compose(rank) for rank in range(3)]
    for rank in ranks:
        assert (rank.rank, rank.workers, rank.backend) == (None, None, "dpdk")
        assert "--no-huge" in shlex.split(rank.values["backend.dpdk.extra_eal_options"])
    for key in ("backend.dpdk.worker_ip", "backend.dpdk.extra_eal_options"):
        assert len({rank.values[key] for rank in ranks}) == 3
    for key in ("general.controller_port", "backend.dpdk.worker_port"):
        assert len({rank.values[key] for rank in ranks}) == 1


def test_dpdk_gets_its_options_as_words() -> None:
    options = compose(1).values["backend.dpdk.extra_eal_options"]
    assert shlex.split(options) == options.split(" ")
    assert "socket=/place/port-1," in options
    assert "--in-memory" not in options  # does not go with --no-huge


@pytest.mark.parametrize(
    ("name", "value", "key"),
    [
        ("threads", 2, "num_worker_threads"),
        ("outstanding", 32, "max_outstanding_packets"),
        ("packet_numel", 64, "packet_numel"),
        ("timeout", 3, "timeout"),
    ],
)
def test_what_can_be_chosen(name: str, value: int, key: str) -> None:
    assert compose(0, **{name: value}).values[f"general.{key}"] == str(value)
