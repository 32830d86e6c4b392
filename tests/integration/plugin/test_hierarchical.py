"""torch_switchml.hierarchical_hook: ranks that are hosts of several, also each with its network."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from support.hosts import ADDRESS, INTERFACE, ONE_FILE, cabled, check_training
from support.launcher import Launcher, Rank
from support.torch import results

from patchgen.system.ports import free_port

SAME = "local_size must be the same on all ranks"


def check(ranks: list[Rank], leaders: Collection[int] = (0, 2)) -> None:
    check_training(ranks, leaders)
    for rank in ranks:
        report = rank.result["report"]
        assert report["world_size"] == (2 if rank.result["leader"] else 0)
        assert bool(report["terms"]) is rank.result["leader"]
        assert set(report["fallbacks"].values()) == {0}


def test_training_on_two_hosts_of_two_ranks(launch: Launcher) -> None:
    arguments = {"local_size": 2}
    env = {"SWITCHML_REQUIRE": "1"}
    check(launch("hierarchies:trains", 4, arguments=arguments, per_rank=ONE_FILE, env=env))


def test_hosts_with_a_network_of_their_own(launch: Launcher) -> None:
    """Two network namespaces tell hosts apart, whose ranks need not be consecutive or as many."""
    env = {
        "GLOO_SOCKET_IFNAME": INTERFACE,
        "MASTER_ADDR": ADDRESS,
        "SWITCHML_REQUIRE": "1",
    }
    config = {"controller_ip": ADDRESS}
    ranks = dict.fromkeys(range(5), ONE_FILE[0])
    with cabled() as hosts:
        places = {rank: {"SWITCHML_TEST_HOST": hosts[rank % 2].namespaces} for rank in range(5)}
        found = launch(
            "hierarchies:trains", 5, config=config, per_rank=ranks, env=env, rank_env=places
        )
    check(found, leaders={0, 1})


def test_hosts_of_one_rank(launch: Launcher) -> None:
    for result in results(launch("hierarchies:trains", 2, arguments={"local_size": 1})):
        assert result["leader"]
        assert result["counted"]["bytes"] == result["gradients"]


def test_state_that_a_callback_drops(launch: Launcher) -> None:
    results(launch("hierarchies:dropped", 2, limit=120))


def test_one_host(launch: Launcher) -> None:
    """The default group delegates; within a host Gloo takes its place."""
    arguments = {"local_size": 2, "backend": "switchml"}
    for number, result in enumerate(results(launch("hierarchies:trains", 2, arguments=arguments))):
        assert result["leader"] == (number == 0)
        assert result["counted"] == {"calls": 0, "bytes": 0}


def test_stages_of_several_tensors_overlap(launch: Launcher) -> None:
    """Their order is the same on all ranks, whatever ends first."""
    arguments = {"number": 12}
    ranks = launch("hierarchies:overlaps", 4, arguments=arguments, per_rank=ONE_FILE, timeout=20)
    assert [result["report"]["calls"] for result in results(ranks)] == [12, 0, 12, 0]


@pytest.mark.parametrize("victim", [1, 2])
def test_rank_killed(launch: Launcher, victim: int) -> None:
    """A leader, and one that is none; the reason is that of the first failure."""
    ranks = launch(
        "hierarchies:dies", 4, arguments={"victim": victim}, per_rank=ONE_FILE, timeout=20
    )
    for number, rank in enumerate(ranks):
        if number == victim:
            assert rank.code == -9
            continue
        assert rank.code == 0, "its threads do not disturb its end"
        first, second = rank.result["errors"]
        reason = "hierarchical_hook: the "
        assert reason in first
        assert second.partition(reason)[2].partition("\n")[0] in first


def test_sizes_that_hosts_cannot_have(launch: Launcher) -> None:
    for result in results(launch("hierarchies:refuses", 3)):
        assert result["errors"] == [
            "local_size is 2, but the number of ranks, 3, is not a multiple of it",
            "local_size is 0, but the number of ranks, 3, is not a multiple of it",
            f"{SAME}: it is 3 on rank 0 and 1 on rank 1",
            "rank 1 has no rack, but others have; set SWITCHML_RACK",
            "ranks 0 and 1 are on one host, but in the racks 0 and 1",
            "NCCL cannot be both local_backend and racks_backend; give gloo",
        ]


def test_racks_of_hosts(launch: Launcher) -> None:
    """Each rack has a switch of its own; the first leaders of racks sum by Gloo.

    Leaders find their racks, and their ranks there, by names alone.
    """
    ports = [free_port(), free_port()]
    per_rank = {rank: {**ONE_FILE[0], "controller_port": ports[rank // 4]} for rank in range(8)}
    names = {
        rank: {"SWITCHML_RACK": f"r{rank // 4}", "SWITCHML_HOST": f"h{rank // 2}"}
        for rank in range(8)
    }
    env = {"SWITCHML_REQUIRE": "1"}
    ranks = launch("hierarchies:trains", 8, per_rank=per_rank, rank_env=names, env=env)
    check(ranks, leaders=range(0, 8, 2))


def test_racks_of_one_host(launch: Launcher) -> None:
    """No switch has two workers: Gloo sums all of it."""
    names = {rank: {"SWITCHML_RACK": str(rank), "SWITCHML_HOST": str(rank)} for rank in range(2)}
    for result in results(launch("hierarchies:trains", 2, rank_env=names)):
        assert result["leader"]
        assert result["counted"] == {"calls": 0, "bytes": 0}
