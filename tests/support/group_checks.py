"""Checks of a process group that delegates, by a graft or by the plugin."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from patchgen.system.ports import free_port
from support import messages
from support.launcher import Launcher, Rank
from support.serving import serving
from support.torch import results
from support.waiting import GROUP, LIMIT_MS

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
