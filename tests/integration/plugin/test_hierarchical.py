"""torch_switchml.hierarchical_hook: ranks that are hosts of several, also each with its network."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.hosts import ADDRESS, INTERFACE, LEADERS, check_training, hosts
from support.torch import results

if TYPE_CHECKING:
    from support.launcher import Launcher, Rank

pytestmark = pytest.mark.integration

SAME = "all hosts must have the same number of ranks"


def check(ranks: list[Rank]) -> None:
    check_training(ranks)
    for rank in ranks:
        report = rank.result["report"]
        assert report["world_size"] == (2 if rank.result["leader"] else 0)
        assert bool(report["terms"]) is rank.result["leader"]
        assert set(report["fallbacks"].values()) == {0}


def test_training_on_two_hosts_of_two_ranks(launch: Launcher) -> None:
    arguments = {"local_size": 2}
    env = {"SWITCHML_REQUIRE": "1"}
    check(launch("hierarchies:trains", 4, arguments=arguments, per_rank=LEADERS, env=env))


def test_hosts_with_a_network_of_their_own(launch: Launcher) -> None:
    """Two network namespaces; torchrun's variable says how many ranks each has."""
    env = {
        "GLOO_SOCKET_IFNAME": INTERFACE,
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": ADDRESS,
        "SWITCHML_REQUIRE": "1",
    }
    config = {"controller_ip": ADDRESS}
    with hosts() as names:
        places = {rank: {"SWITCHML_TEST_HOST": names[rank // 2]} for rank in range(4)}
        check(
            launch(
                "hierarchies:trains", 4, config=config, per_rank=LEADERS, env=env, rank_env=places
            )
        )


def test_hosts_of_one_rank(launch: Launcher) -> None:
    for result in results(launch("hierarchies:trains", 2, arguments={"local_size": 1})):
        assert result["leader"]
        assert result["counted"]["bytes"] == result["gradients"]


def test_one_host(launch: Launcher) -> None:
    """The default group delegates; within a host Gloo takes its place."""
    arguments = {"local_size": 2, "backend": "switchml"}
    for number, result in enumerate(results(launch("hierarchies:trains", 2, arguments=arguments))):
        assert result["leader"] == (number == 0)
        assert result["counted"] == {"calls": 0, "bytes": 0}


def test_stages_of_several_tensors_overlap(launch: Launcher) -> None:
    """Their order is the same on all ranks, whatever ends first."""
    arguments = {"number": 12}
    ranks = launch("hierarchies:overlaps", 4, arguments=arguments, per_rank=LEADERS, timeout=20)
    assert [result["report"]["calls"] for result in results(ranks)] == [12, 0, 12, 0]


@pytest.mark.parametrize("victim", [1, 2])
def test_rank_killed(launch: Launcher, victim: int) -> None:
    """A leader, and one that is none; the reason is that of the first failure."""
    ranks = launch(
        "hierarchies:dies", 4, arguments={"victim": victim}, per_rank=LEADERS, timeout=20
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
    for result in results(launch("hierarchies:refuses", 2)):
        assert result["errors"] == [
            "local_size is 3, of which the number of ranks, 2, is not a multiple",
            "local_size is 0, of which the number of ranks, 2, is not a multiple",
            "give local_size, the ranks of a host: LOCAL_WORLD_SIZE is not set, as torchrun does",
            f"{SAME}: local_size is 2 on rank 0 and 1 on rank 1",
        ]
