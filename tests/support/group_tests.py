"""Tests and checks of a process group that delegates, by a graft or by the plugin."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from patchgen.system.ports import free_port
from support import messages, metrics
from support.launcher import Launcher, Rank
from support.serving import serving
from support.torch import results
from support.waiting import GROUP, LIMIT_MS, SHORT

SIZES = [1, 1_000_003]
FAILOVER = {"SWITCHML_FAILOVER": "1"}
EITHER = pytest.mark.parametrize("env", [{}, FAILOVER], ids=["alone", "failover"])
"""A test of ranks without failover, and with it."""
LARGE = 64 * 2**20 // 4  # of two ranks only, as more of them are slow on few cores


def check_stays_with_gloo(ranks: list[Rank]) -> None:
    for result in results(ranks):
        assert result["report"]["calls"] == 0
        assert result["report"]["fallbacks"]["group"] == 2


GONE = "libgone.so.1: cannot open shared object file"


def break_library(path: Path) -> None:
    """Replace a delegate library by one that needs a library which is missing."""
    gone = path.with_name("libgone.so.1")
    path.unlink()
    for name, needed in ((gone, ()), (path, ("-Wl,--no-as-needed", str(gone)))):
        options = [*needed, f"-Wl,-soname,{name.name}", "-o", str(name)]
        subprocess.run(["cc", "-shared", "-x", "c", os.devnull, "-x", "none", *options], check=True)
    gone.unlink()


def check_hidden_library(launch: Launcher, hidden: Mapping[str, str]) -> None:
    """Check that all ranks take Gloo at once, or raise, where one cannot open the library.

    `hidden` is the environment of such a rank.
    """
    for absent, named in (((0,), "rank 0"), ((2,), "rank 2"), ((0, 1, 2), "ranks 0-2")):
        rank_env = dict.fromkeys(absent, hidden)
        ranks = launch("outcome", 3, rank_env=rank_env, timeout=600, limit=120)
        for number, result in enumerate(results(ranks)):
            report = result["report"]
            assert (report["calls"], report["step"]) == (0, "capabilities")
            assert report["reason"].startswith(f"{named}: {GONE}")
            assert report["problem"].startswith(GONE if number in absent else "")
        line = f"{messages.GROUP.format(3)}{messages.STAYS}: {named}: {GONE}"
        assert ranks[0].err.count(line) == 1
        for number, rank in enumerate(ranks):
            warnings = rank.err.count(f"switchml: {messages.WARNING.format(number)}{GONE}")
            assert warnings == (number in absent)
    ranks = launch("refused", 3, rank_env={2: hidden}, env={"SWITCHML_REQUIRE": "1"}, limit=120)
    for rank in ranks:
        assert messages.REQUIRED in rank.result["error"]
        assert f"rank 2: {GONE}" in rank.result["error"]


def check_sums(launch: Launcher, world: int, prepostprocessor: str) -> None:
    sizes = [*SIZES, LARGE] if world == 2 else SIZES
    ranks = launch(
        "sums", world, arguments={"sizes": sizes}, config={"prepostprocessor": prepostprocessor}
    )
    for result in results(ranks):
        report = result["report"]
        assert (report["delegating"], report["reason"]) == (True, "")
        assert report["group"] == messages.GROUP.format(world) + report["decision"]
        listed = " ".join(f"{name}={value}" for name, value in report["terms"].items())
        assert report["decision"].endswith(f"{messages.DELEGATES} ({listed})")
        assert report["terms"]["num_workers"] == str(report["world_size"]) == str(world)
        assert report["terms"]["SWITCHML_OPS"] == "SUM,AVG"
    assert [rank.err.count("process group") for rank in ranks] == [1, *[0] * (world - 1)]
    assert messages.DELEGATES in ranks[0].err


def check_gradient_types(launch: Launcher, world: int, prepostprocessor: str, chunk: int) -> None:
    config = {"prepostprocessor": prepostprocessor}
    env = {"SWITCHML_CHUNK_NUMEL": str(chunk)}
    results(launch("gradient_types", world, config=config, env=env))


def check_sums_in_fewer_bits(
    launch: Launcher, world: int, bits: int, bucket: int, *, skip: bool
) -> None:
    env = {
        "SWITCHML_QUANTIZATION_BITS": str(bits),
        "SWITCHML_QUANTIZATION_BUCKET_SIZE": str(bucket),
        "SWITCHML_QUANTIZATION_MINIMAL_SIZE": "300",
        "SWITCHML_QUANTIZATION_SKIP_INCOMPLETE_BUCKETS": str(int(skip)),
        "SWITCHML_CHUNK_NUMEL": "1500",
    }
    arguments = {"bits": bits, "bucket": bucket, "least": 300, "skip": skip}
    ranks = launch("quantized", world, arguments=arguments, env=env)
    found = results(ranks)
    assert all(result["works"] == found[0]["works"] for result in found)
    assert f"{messages.DELEGATES} in {bits} bits (" in ranks[0].err


def check_rank_killed(launch: Launcher, victim: int, **env: str) -> None:
    """Kill a rank. Rank 0 hosts the aggregator, so its death is also that of the switch."""
    ranks = launch("dies", 3, arguments={"victim": victim}, timeout=20, env=env)
    for number, rank in enumerate(ranks):
        if number == victim:
            assert rank.code == -9
            continue
        result = rank.result
        assert "SwitchML" in result["first"]
        assert "SwitchML" in result["second"]
        assert result["elapsed"] < GROUP
        assert result["report"]["calls"] == 1
        assert result["report"]["failure"]


def check_dropped(launch: Launcher, env: Mapping[str, str], message: str) -> None:
    """Let a rank run out of memory. With failover no rank waits for a timeout.

    Without, the other rank's error has the message.
    """
    given = env or {"SWITCHML_TIMEOUT_MS": str(LIMIT_MS)}
    mine, other = results(launch("dropped", 2, arguments={"victim": 0}, env=given))
    assert "memory" in mine["lacking"]
    assert "was dropped before it was submitted" in mine["first"]
    if env == FAILOVER:
        assert messages.GONE.format(0) + " (allreduce number" in other["lacking"]
        assert "did not finish" not in other["lacking"]
        assert other["first"] == other["lacking"]
    else:
        assert message in other["lacking"]
    for one in (mine, other):
        assert one["report"]["calls"] == 1
        assert messages.FAILED in one["first"]


def in_bits(bits: int | None) -> dict[str, str]:
    """Return variables for sending floats in so many bits; None for all."""
    names = {"SWITCHML_QUANTIZATION_BITS": bits, "SWITCHML_QUANTIZATION_MINIMAL_SIZE": 300}
    return {name: str(value) for name, value in names.items()} if bits else {}


def check_helper(launch: Launcher) -> None:
    """Run another process in a rank's environment: it uses Gloo, silently, and disturbs nothing."""
    env = {"SWITCHML_REQUIRE": "1"}
    for result in results(launch("helped", 2, arguments={"port": free_port()}, env=env)):
        assert result["code"] == 0, result["err"]
        helper = json.loads(result["out"].partition("RESULT ")[2])["report"]
        assert (helper["calls"], helper["fallbacks"]["group"]) == (0, 2)
        assert "the parent process delegates" in helper["reason"]
        assert "switchml" not in result["err"]
        assert result["report"]["calls"] == 2


def check_failover(
    launch: Launcher,
    cache: Path,
    place: Path,
    world: int,
    prepostprocessor: str,
    dies: int,
    given: Mapping[str, str] | None = None,
    **more: int | None,
) -> None:
    """End the switch during sums: a rank only writes a line."""
    rounds = dies + 4
    with serving(cache, place / "counters", world) as switch:
        config = {"prepostprocessor": prepostprocessor, **switch.config}
        arguments = {"switch": switch.aggregator, "rounds": rounds, "dies": dies, **more}
        env = {"SWITCHML_FAILOVER": "1", "SWITCHML_CHUNK_NUMEL": "3000"}
        env |= {"SWITCHML_TIMEOUT_MS": str(LIMIT_MS)}
        env |= in_bits(more.get("bits")) | dict(given or {})
        ranks = launch("outlives", world, arguments=arguments, config=config, env=env)
    for result in results(ranks, trained=True):
        report = result["report"]
        over = report["failover"]
        assert (report["failure"], over["failovers"]) == ("", 1)
        assert over["reason"].startswith("rank ")
        assert report["calls"] > 0 or dies == 0
        assert over["calls"] > 0
        assert over["seconds"] > 0
    assert ranks[0].err.count(f"{messages.OVER_GLOO}\n") == 1
    assert all("goes over Gloo" not in rank.err for rank in ranks[1:])


class GroupTests:
    """Tests of the default process group, with the fixtures of the file that has a subclass."""

    @pytest.mark.parametrize("fails", [False, True])
    def test_the_end_while_a_thread_waits(self, launch: Launcher, *, fails: bool) -> None:
        """The exit code is that of the program, and nothing waits, as with stock Gloo."""
        arguments = {"fails": fails}
        ranks = launch("ends_while_waiting", 2, arguments=arguments, timeout=200, fresh=True)
        assert [rank.code for rank in ranks] == [int(fails), 0], ranks[0].err

    def test_values_in_fewer_bits_are_jobs_of_a_part(
        self, launch: Launcher, summing: Path, tmp_path: Path
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
        self, launch: Launcher, summing: Path, tmp_path: Path, number: int
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
        self,
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
    def test_rank_in_a_message(
        self, launch: Launcher, world: int, command: str, timeout: float
    ) -> None:
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
    def test_rank_that_is_late_with_failover(self, launch: Launcher, *, impatient: bool) -> None:
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

    def test_metrics_of_a_failover(self, launch: Launcher, tmp_path: Path) -> None:
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

    def test_everything_else_falls_back_and_is_right(self, launch: Launcher) -> None:
        results(launch("fallbacks", 3))

    def test_halves_without_room(self, launch: Launcher) -> None:
        results(launch("halves_overflow", 2, config={"prepostprocessor": "cpu_exponent_quantizer"}))

    def test_subgroups_stay_with_gloo(self, launch: Launcher) -> None:
        ranks = launch("groups", 3)
        results(ranks)
        assert messages.PART.format(2, 3) in ranks[0].err
        assert messages.OTHER_GROUP in ranks[0].err

    def test_second_group_delegates(self, launch: Launcher) -> None:
        env = {"SWITCHML_GROUP": "2", "SWITCHML_REQUIRE": "1"}
        ranks = launch("second_group", 3, env=env)
        results(ranks)
        assert messages.LATER_GROUP.format(1, 3, 2) in ranks[0].err

    def test_a_required_group_that_is_never_made(self, launch: Launcher) -> None:
        env = {"SWITCHML_GROUP": "5", "SWITCHML_REQUIRE": "1"}
        ranks = launch("outcome", 2, env=env, fresh=True)  # new interpreters, which exit
        check_stays_with_gloo(ranks)
        assert [rank.err.count(messages.UNMET) for rank in ranks] == [1, 1]

    def test_helper_of_a_rank(self, launch: Launcher) -> None:
        check_helper(launch)

    def test_first_group_delegates(self, launch: Launcher) -> None:
        """Delegate in the first group, whichever of two sums or ends first."""
        ranks = launch("overlapping", 3)
        results(ranks)

    def test_distributed_data_parallel(self, launch: Launcher) -> None:
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

    def test_required_but_not_possible(self, launch: Launcher) -> None:
        ranks = launch(
            "refused", 2, per_rank={1: {"num_workers": 5}}, env={"SWITCHML_REQUIRE": "1"}
        )
        for result in results(ranks):
            assert messages.REQUIRED in result["error"]
            assert "rank 1: switchml.cfg has" + messages.OTHER_SIZE.format(5, 2) in result["error"]

    def test_rank_that_never_comes(self, launch: Launcher) -> None:
        ranks = launch("late", 2, arguments={"victim": 1}, timeout=SHORT)
        result = ranks[0].result
        late = messages.LATE.format(round(1000 * SHORT))
        assert late in result["first"]
        assert late in result["second"]
        assert result["second_elapsed"] < SHORT, "it does not wait again"
        assert ranks[0].code == 0

    def test_debug_detail(self, launch: Launcher) -> None:
        env = {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}
        results(launch("sums", 2, arguments={"sizes": [1, 1000]}, env=env))
        results(launch("train", 2, arguments={"steps": 2}, env=env), trained=True)
