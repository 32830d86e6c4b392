"""The real client library under torch: by the plugin in PyPI's, by a graft in the one in use."""

from __future__ import annotations

import dataclasses
import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from support import messages
from support.device import check_device_outlives, check_late_device
from support.group_checks import (
    EITHER,
    check_dropped,
    check_helper,
    in_bits,
)
from support.real import FAULTS, LabLauncher, OneFile, Settings, Stoppable
from support.table import check_all_summed, differences, run_table
from support.torch import checked, results
from support.waiting import LIMIT_MS

from patchgen.extras.lab import lab

SIZES = [1, 257, 12_345, 1_000_003]
LATE = lab.Faults(loss=0.02, duplicate=0.02, delay=50, seed=1)


def faulty(launch: LabLauncher) -> LabLauncher:
    return dataclasses.replace(launch, faults=FAULTS, settings=Settings(timeout=5))


def summed(launch: LabLauncher) -> int:
    """Packets of the last run."""
    return min(int(worker["summed"]) for worker in launch.labs[-1].counters["workers"])


@pytest.mark.parametrize("world", [2, 3])
def test_sums(launch: LabLauncher, world: int) -> None:
    ranks = launch("sums", world, arguments={"sizes": SIZES})
    for result in results(ranks):
        assert result["report"]["delegating"] is True
        assert result["report"]["simulator"] is False
    assert messages.DELEGATES in ranks[0].err
    assert "Flow" not in ranks[0].err  # that a port has no flow rules is no error
    assert summed(launch) > 2 * sum(SIZES) // 256


def test_one_file_for_all_ranks(launch: LabLauncher) -> None:
    """The library gets addresses, cores and a rank from the delegate, and files of its own."""
    ranks = results(OneFile(**vars(launch))("sums", 2, arguments={"sizes": SIZES[:2]}))
    cores = set()
    for number, result in enumerate(ranks):
        filled = result["report"]["filled_in"]
        assert filled.startswith(f"worker_ip=10.83.77.{number} ")
        assert f" num_workers=2 rank={number} cores=" in filled
        cores.add(filled.partition(" cores=")[2].split()[0])
        assert " extra_eal_options=--no-shconf --no-huge" in filled
    assert len(cores) == 2


def test_sums_with_faults(launch: LabLauncher) -> None:
    launch = faulty(launch)
    for result in results(launch("sums", 2, arguments={"sizes": SIZES})):
        assert result["report"]["failure"] == ""
    workers = launch.labs[-1].counters["workers"]
    assert sum(worker["answered_again"] for worker in workers) > 0


@pytest.mark.parametrize(
    ("case", "world", "given"),
    [
        ("outcome", 2, {}),
        ("fallbacks", 3, {}),
        ("groups", 3, {}),
        ("second_group", 2, {"env": {"SWITCHML_GROUP": "2"}}),
        ("two_threads", 2, {"arguments": {"rounds": 20}}),
        ("nonfinite", 2, {}),
        ("minimum", 2, {"env": {"SWITCHML_MIN_NUMEL": "100"}}),
    ],
)
def test_cases(launch: LabLauncher, case: str, world: int, given: dict[str, Any]) -> None:
    results(launch(case, world, **given))


def test_helper_of_a_rank(launch: LabLauncher) -> None:
    """A session of the same rank would take the place of the training's."""
    check_helper(launch)


@pytest.mark.parametrize(
    ("faults", "bits"),
    [(lab.Faults(), None), (FAULTS, None), (FAULTS, 4)],
    ids=["sound", "faulty", "fewer bits"],
)
def test_switch_stopped(launch: LabLauncher, faults: lab.Faults, bits: int | None) -> None:
    """The ranks go on over Gloo, also where packets are late, or come twice.

    DPDK's driver of memif may read a ring of a switch that has ended, and end the rank.
    """
    chosen = faulty(launch) if faults.loss else launch
    env = {"SWITCHML_FAILOVER": "1", "SWITCHML_TIMEOUT_MS": "3000", "SWITCHML_CHUNK_NUMEL": "3000"}
    arguments = {"rounds": 6, "dies": 3, "number": signal.SIGSTOP, "bits": bits}
    env |= in_bits(bits)
    ranks = Stoppable(**vars(chosen))("outlives", 2, arguments=arguments, env=env)
    for result in results(ranks, trained=True):
        report = result["report"]
        assert (report["failure"], report["failover"]["failovers"]) == ("", 1)
        assert report["calls"] > 0
        assert report["failover"]["calls"] > 0
    assert ranks[0].err.count(f"{messages.OVER_GLOO}\n") == 1


@pytest.mark.parametrize("faults", [lab.Faults(), FAULTS], ids=["sound", "faulty"])
def test_switch_that_comes_back(launch: LabLauncher, faults: lab.Faults, tmp_path: Path) -> None:
    """The library starts again, for the same group and for a new one. What the switch has of the
    old session, and what is late, is in no sum."""
    chosen = faulty(launch) if faults.loss else launch
    env = {"SWITCHML_FAILOVER": "1", "SWITCHML_TIMEOUT_MS": "3000", "SWITCHML_CHUNK_NUMEL": "3000"}
    arguments = {"address": "", "store": str(tmp_path), "number": signal.SIGSTOP}
    ranks = Stoppable(**vars(chosen))("returns", 2, arguments=arguments, env=env)
    for result in results(ranks):
        over = result["report"]["failover"]
        assert (over["failovers"], over["returns"]) == (2, 1)
    assert len(re.findall(messages.RETURNS.format(r"\d+"), ranks[0].err)) == 1


@EITHER
def test_answers_that_are_late(launch: LabLauncher, env: dict[str, str], tmp_path: Path) -> None:
    """Packets of the failed session are held, lost and sent again while the next one sums."""
    held = dataclasses.replace(launch, faults=LATE, settings=Settings(timeout=5))
    late = messages.LATE.format(1000)
    arguments = {"numel": 1_000_000, "store": str(tmp_path), "late": late}
    env = {"SWITCHML_TIMEOUT_MS": "1000", **env}
    for result in results(held("overdue", 2, arguments=arguments, env=env)):
        over = result["report"]["failover"]
        turns = 2 if "SWITCHML_FAILOVER" in env else 0
        assert (over["failovers"], over["returns"]) == (turns, turns)
        assert result["report"]["delegating"] is True
    assert held.labs[-1].counters["duplicated"] > 0


def test_groups_come_and_go(launch: LabLauncher, tmp_path: Path) -> None:
    results(launch("again", 2, arguments={"times": 3, "store": str(tmp_path)}))


@pytest.mark.parametrize("faults", [lab.Faults(), FAULTS], ids=["sound", "faulty"])
def test_distributed_data_parallel(launch: LabLauncher, faults: lab.Faults) -> None:
    """The same weights on all ranks, and the losses of stock Gloo within the fixed-point bound."""
    chosen = faulty(launch) if faults.loss else launch
    arguments = {"steps": 12}
    stock = results(launch("train", 2, arguments=arguments, preload=False), trained=True)
    mine = results(chosen("train", 2, arguments=arguments), trained=True)
    assert mine[0]["weights"] == mine[1]["weights"]
    for reference, own in zip(stock, mine):
        assert own["report"]["calls"] >= 12
        assert own["losses"] == pytest.approx(reference["losses"], rel=1e-5)


def test_the_table(launch: LabLauncher, tmp_path: Path) -> None:
    """torch.distributed's documented functions have the outcome that they have in stock."""
    stock = run_table(launch, tmp_path / "stock", "OFF", preload=False)
    mine = run_table(launch, tmp_path / "mine", "OFF", preload=True)
    for rank in (*stock, *mine):
        del rank["cells"]["group_itself"]  # for the name gloo only
    assert differences(mine, stock) == []
    check_all_summed(mine)


SCRIPT = """
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
tensor = torch.full((10_000,), dist.get_rank() + 0.5)
dist.all_reduce(tensor)
assert bool((tensor == 2).all()), tensor
"""


@pytest.mark.usefixtures("torch_launcher")  # which `run` starts the ranks with
def test_run_makes_a_lab(launch: LabLauncher, tmp_path: Path) -> None:
    """The command itself, with a graft or an installed plugin: the table has the packets."""
    graft = launch.loading.get("SWITCHML_TEST_GRAFT")
    way = ["--variant", "graft", "--graft", graft] if graft else ["--variant", "plugin"]
    words: list[str | Path] = [
        "--switchml-home",
        launch.home,
        "--dpdk",
        "--cache",
        Path(launch.switch).parents[2],
    ]
    command: list[str | Path] = [launch.python, "-c", SCRIPT]
    report = tmp_path / "report.json"
    output = checked("run", "--lab", "--require", *way, *words, "--report", report, "--", *command)
    assert messages.DELEGATES in output
    workers = json.loads(report.read_text())["lab"]["workers"]
    # The probe comes first, and float32 sends exponents before.
    assert [worker["summed"] > 2 * 40 for worker in workers] == [True, True]


NOWHERE = {"controller_ip": "127.0.0.2"}
UNKNOWN = {"extra_eal_options": "--no-such-option"}
SOON = {"SWITCHML_START_TIMEOUT_MS": "5000"}


@EITHER
@pytest.mark.parametrize(
    ("given", "faults", "reason"),
    [
        ({"per_rank": {1: None}}, lab.Faults(), "rank 1: "),
        ({"per_rank": {1: {"rank": 0}}}, lab.Faults(), "has" + messages.OTHER_RANK.format(0, 1)),
        (
            {"per_rank": {1: {"num_workers": 5}}},
            lab.Faults(),
            "has" + messages.OTHER_SIZE.format(5, 2),
        ),
        ({"per_rank": {1: {"worker_port": 4100}}}, lab.Faults(), "worker_port=4100"),
        ({"config": NOWHERE}, lab.Faults(), "ranks 0-1: the controller at 127.0.0.2:"),
        (
            {"per_rank": {1: UNKNOWN}, "rank_env": dict.fromkeys(range(2), SOON)},
            lab.Faults(),
            f"ranks 0-1: {messages.UNSTARTED}: see its messages",
        ),
        ({"timeout": 20}, lab.Faults(loss=1), "ranks 0-1: the probe of 33025 int32 elements"),
    ],
    ids=["no file", "rank", "workers", "terms", "no controller", "no start", "no packet"],
)
def test_what_keeps_a_group_with_gloo(
    launch: LabLauncher,
    given: dict[str, Any],
    faults: lab.Faults,
    reason: str,
    env: dict[str, str],
) -> None:
    ranks = dataclasses.replace(launch, faults=faults)("outcome", 2, env=env, **given)
    for result in results(ranks):
        assert result["report"]["calls"] == 0
    assert messages.STAYS in ranks[0].err
    assert reason in ranks[0].err


def test_two_jobs_whose_packets_cross(launch: LabLauncher) -> None:
    """Each switch has one rank 0 and one rank 1, but of two jobs: none of them delegates."""
    config = {"prepostprocessor": "cpu_exponent_quantizer"}
    for ranks in launch.crossed("outcome", config=config):
        for result in results(ranks):
            assert result["report"]["calls"] == 0
        for rank in range(2):
            assert f"rank {rank}: {messages.WRONG_PROBE}" in ranks[0].err


def test_return_after_a_rank_was_late(launch: LabLauncher) -> None:
    """The ranks give later jobs the same ids, though one of them has submitted fewer before."""
    env = {"SWITCHML_FAILOVER": "1", "SWITCHML_TIMEOUT_MS": str(LIMIT_MS)}
    arguments = {"victim": 1, "more": 80}
    found = results(launch("tardy", 2, arguments=arguments, env=env))
    assert [result["report"]["failover"]["returns"] for result in found] == [1, 1]
    # With other ids each sum has answers that a rank does not take.
    assert sum(result["packets"]["wrong"] for result in found) < arguments["more"] // 2


@EITHER
def test_an_allreduce_that_is_dropped(launch: LabLauncher, env: dict[str, str]) -> None:
    check_dropped(launch, env, messages.LATE.format(3000))


def test_tensors_of_a_device_outlive_the_switch(by_plugin: LabLauncher, device: Path) -> None:
    arguments = {"dies": 3, "number": signal.SIGSTOP}
    check_device_outlives(Stoppable(**vars(faulty(by_plugin))), device, arguments)


@EITHER
def test_a_device_that_is_late(by_plugin: LabLauncher, device: Path, env: dict[str, str]) -> None:
    check_late_device(by_plugin, device, env, timeout=20)
