"""What holds for every variant: the tests of the default group, with the patch and the plugin."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
from support import messages, metrics
from support.group_checks import (
    LARGE,
    check_failover,
    check_helper,
    check_stays_with_gloo,
    in_bits,
)
from support.launcher import Launcher
from support.serving import serving
from support.torch import results
from support.waiting import GROUP, LIMIT_MS, SHORT


@pytest.fixture(scope="session", params=["patch", "plugin"])
def launch(request: pytest.FixtureRequest) -> Launcher:
    """Ranks of Debian's torch with a graft, which is the patch, and of PyPI's with the plugin."""
    if request.param == "plugin" and "SWITCHML_TEST_PYTHON" in os.environ:
        pytest.skip("the torch that SWITCHML_TEST_PYTHON names is for a graft")
    launcher: Launcher = request.getfixturevalue(f"{request.param}_launch")
    return launcher


@pytest.mark.parametrize("fails", [False, True])
def test_the_end_while_a_thread_waits(launch: Launcher, *, fails: bool) -> None:
    """The exit code is that of the program, and nothing waits, as with stock Gloo."""
    arguments = {"fails": fails}
    ranks = launch("ends_while_waiting", 2, arguments=arguments, timeout=200, fresh=[0])
    assert [rank.code for rank in ranks] == [int(fails), 0], ranks[0].err


def test_values_in_fewer_bits_are_jobs_of_a_part(
    launch: Launcher, summing: Path, tmp_path: Path
) -> None:
    """A rank packs a part while the one before is summed. The last one is smaller."""
    jobs = {}
    for parts in (1, 4):
        arguments = {
            "numel": 1000 * parts - 7, "concurrent": 1, "rounds": 1, "dtype": "float32",
        }  # fmt: skip
        env = {**in_bits(8), "SWITCHML_CHUNK_NUMEL": "1030"}  # two buckets of 512 values
        with serving(summing, tmp_path / "counters", 2) as switch:
            config = switch.config
            results(launch("time_allreduce", 2, arguments=arguments, config=config, env=env))
            jobs[parts] = switch.end()[1]["jobs"]
    assert jobs[4] - jobs[1] == 2 * (4 - 1), "in two allreduces"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_switch_that_comes_back(
    launch: Launcher, summing: Path, tmp_path: Path, number: int
) -> None:
    """Remove the switch and restore it, twice; each sum is right."""
    with serving(summing, tmp_path / "counters", 2) as switch:
        arguments = {"switch": switch.aggregator, "address": switch.address}
        arguments |= {"store": str(tmp_path), "number": number}
        env = {"SWITCHML_FAILOVER": "1", "SWITCHML_CHUNK_NUMEL": "3000"}
        env |= {"SWITCHML_TIMEOUT_MS": str(LIMIT_MS)}
        ranks = launch("returns", 2, arguments=arguments, config=switch.config, env=env)
    for result in results(ranks):
        over = result["report"]["failover"]
        assert (over["failovers"], over["returns"]) == (2, 1)
        assert over["reason"].startswith("rank ")
    output = ranks[0].err
    assert len(re.findall(messages.RETURNS.format(r"\d+"), output)) == 1
    assert output.count(f"switchml: {messages.GROUP.format(2)}allreduce(") == 3
    assert messages.DELEGATES not in ranks[1].err
    assert "returns to SwitchML" not in ranks[1].err


@pytest.mark.parametrize(
    ("world", "prepostprocessor", "dies", "bits"),
    [
        (2, "bypass", 0, None),
        (2, "bypass", 5, None),
        (3, "cpu_exponent_quantizer", 3, None),
        (2, "bypass", 2, 4),
    ],
)
def test_switch_killed(
    launch: Launcher,
    summing: Path,
    tmp_path: Path,
    world: int,
    prepostprocessor: str,
    dies: int,
    bits: int | None,
) -> None:
    check_failover(launch, summing, tmp_path, world, prepostprocessor, dies, bits=bits)


@pytest.mark.parametrize(
    ("world", "command", "timeout"),
    [
        (2, "kill -KILL $PPID", GROUP),
        (3, "kill -KILL $PPID", GROUP),
        (2, f"kill -STOP $PPID; sleep {3 * SHORT}; kill -CONT $PPID", SHORT),
    ],
)
def test_rank_in_a_message(launch: Launcher, world: int, command: str, timeout: float) -> None:
    """Break a rank silently: no rank waits for a timeout, and Gloo continues."""
    env = {"SWITCHML_FAILOVER": "1", "SWITCHML_TIMEOUT_MS": str(LIMIT_MS)}
    env |= {"SWITCHML_CHUNK_NUMEL": str(LARGE)}
    arguments = {"victim": 1, "numel": LARGE, "command": command}
    ranks = launch("halves", world, arguments=arguments, env=env, timeout=timeout)
    if "CONT" in command:
        results(ranks)
    for rank in (*ranks[:1], *ranks[2:]):
        assert messages.STUCK + messages.GONE.format(1) in rank.result["why"]
        assert rank.result["elapsed"] < GROUP


@pytest.mark.parametrize("impatient", [False, True])
def test_rank_that_is_late_with_failover(launch: Launcher, *, impatient: bool) -> None:
    """Continue over Gloo, with all connections intact or with the user's broken."""
    env = {"SWITCHML_FAILOVER": "1", "SWITCHML_TIMEOUT_MS": str(LIMIT_MS)}
    arguments = {"victim": 1, "impatient": impatient}
    ranks = launch("tardy", 2, arguments=arguments, env=env)
    for result in results(ranks):
        over = result["report"]["failover"]
        assert result["report"]["failure"] == ""
        assert (over["failovers"], over["calls"]) == (1, 3)
        assert over["reason"].startswith("rank 0: the allreduce of 1000 float32 elements ")
        assert over["reason"].endswith(messages.LATE.format(LIMIT_MS))


def test_metrics_of_a_failover(launch: Launcher, tmp_path: Path) -> None:
    """Read metrics while the ranks use Gloo, and after their return."""
    arguments = {"victim": 1, "more": 70, "pages": str(tmp_path)}
    env = {"SWITCHML_FAILOVER": "1", "SWITCHML_TIMEOUT_MS": str(LIMIT_MS)}
    env |= {"SWITCHML_METRICS": str(tmp_path), "SWITCHML_METRICS_SECONDS": "1"}
    message = results(launch("tardy", 2, arguments=arguments, env=env))
    for rank, (result, page) in enumerate(zip(message, metrics.read(tmp_path))):
        during = metrics.parse(result["page"])
        assert during.value("switchml_state", state="failover") == 1
        assert during.value("switchml_failovers_total") == 1
        assert during.value("switchml_returns_total") == 0
        assert during.value("switchml_failover_seconds_total") > 0
        over = result["report"]["failover"]
        assert (over["failovers"], over["returns"], over["calls"]) == (1, 1, 63)
        page.check(result["report"], rank=rank, size=2, state="ended")


def test_everything_else_falls_back_and_is_right(launch: Launcher) -> None:
    results(launch("fallbacks", 3))


def test_halves_without_room(launch: Launcher) -> None:
    results(launch("halves_overflow", 2, config={"prepostprocessor": "cpu_exponent_quantizer"}))


def test_subgroups_stay_with_gloo(launch: Launcher) -> None:
    ranks = launch("groups", 3)
    results(ranks)
    assert messages.PART.format(2, 3) in ranks[0].err
    assert messages.OTHER_GROUP in ranks[0].err


def test_second_group_delegates(launch: Launcher) -> None:
    env = {"SWITCHML_GROUP": "2", "SWITCHML_REQUIRE": "1"}
    ranks = launch("second_group", 3, env=env)
    results(ranks)
    assert messages.LATER_GROUP.format(1, 3, 2) in ranks[0].err


def test_a_required_group_that_is_never_made(launch: Launcher) -> None:
    env = {"SWITCHML_GROUP": "5", "SWITCHML_REQUIRE": "1"}
    # Their exit says it: that of a forked rank does not run the destructors of a graft.
    ranks = launch("outcome", 2, env=env, fresh="SWITCHML_TEST_GRAFT" in launch.loading)
    check_stays_with_gloo(ranks)
    assert [rank.err.count(messages.UNMET) for rank in ranks] == [1, 1]


def test_helper_of_a_rank(launch: Launcher) -> None:
    check_helper(launch)


def test_first_group_delegates(launch: Launcher) -> None:
    """Delegate in the first group, whichever of two sums or ends first."""
    ranks = launch("overlapping", 3)
    results(ranks)


def test_distributed_data_parallel(launch: Launcher) -> None:
    """Train to the same weights on all ranks, near the losses of stock Gloo."""
    arguments = {"steps": 12}
    quantized = {"prepostprocessor": "cpu_exponent_quantizer"}
    ranks = [
        launch("train", 2, arguments=arguments, preload=False),
        launch("train", 2, arguments=arguments, config=quantized),
        launch("train", 2, arguments=arguments, env={"SWITCHML_DISABLE": "1"}),
    ]
    stock, delegated, disabled = (results(of_one_way, trained=True) for of_one_way in ranks)
    assert delegated[0]["weights"] == delegated[1]["weights"]
    for reference, mine, same in zip(stock, delegated, disabled):
        assert reference["report"] is None
        assert mine["report"]["calls"] >= 12
        assert same["losses"] == reference["losses"]
        assert same["weights"] == reference["weights"]
        assert mine["losses"] == pytest.approx(reference["losses"], rel=1e-5)


def test_required_but_not_possible(launch: Launcher) -> None:
    ranks = launch("refused", 2, per_rank={1: {"num_workers": 5}}, env={"SWITCHML_REQUIRE": "1"})
    for result in results(ranks):
        assert messages.REQUIRED in result["error"]
        assert "rank 1: switchml.cfg has" + messages.OTHER_SIZE.format(5, 2) in result["error"]


def test_rank_that_never_comes(launch: Launcher) -> None:
    ranks = launch("late", 2, arguments={"victim": 1}, timeout=SHORT)
    result = ranks[0].result
    late = messages.LATE.format(round(1000 * SHORT))
    assert late in result["first"]
    assert late in result["second"]
    assert result["second_elapsed"] < SHORT, "it does not wait again"
    assert ranks[0].code == 0


def test_debug_detail(launch: Launcher) -> None:
    env = {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}
    results(launch("sums", 2, arguments={"sizes": [1, 1000]}, env=env))
    results(launch("train", 2, arguments={"steps": 2}, env=env), trained=True)
