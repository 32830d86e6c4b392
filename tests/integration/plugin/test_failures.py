"""What failures look like with the simulator, row by row of docs/runtime.md, also with failover."""

from __future__ import annotations

import contextlib
import hashlib
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from support import messages
from support.chaos.relay import Relay
from support.device import check_device_outlives, check_late_device
from support.group_checks import (
    EITHER,
    break_library,
    check_dropped,
    check_failover,
    check_hidden_library,
    check_stays_with_gloo,
)
from support.launcher import Launcher
from support.serving import Served, behind, serving
from support.torch import Plugin, results
from support.waiting import GROUP, LIMIT_MS, SHORT

from patchgen.core.patch import render

OTHER_CONFIG = r"rank 1: switchml\.cfg has"


@pytest.fixture
def switch(tmp_path: Path, summing: Path) -> Iterator[Served]:
    with serving(summing, tmp_path / "counters", 2) as served:
        yield served


@EITHER
@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"per_rank": {1: None}}, f"rank 1: {re.escape(messages.NO_CONFIG)}"),
        ({"per_rank": {1: {"num_workers": 5}}}, OTHER_CONFIG + messages.OTHER_SIZE.format(5, 2)),
        ({"per_rank": {1: {"rank": 0}}}, OTHER_CONFIG + messages.OTHER_RANK.format(0, 1)),
        (
            {"config": behind(1), "timeout": SHORT},
            f"(ranks 0-1: |rank 0: {messages.UNSTARTED}.*; rank 1: ){messages.UNSTARTED}",
        ),
    ],
    ids=["no file", "workers", "rank", "no controller"],
)
def test_what_keeps_a_group_with_gloo(
    launch: Launcher, given: dict[str, Any], reason: str, env: dict[str, str]
) -> None:
    ranks = launch("outcome", 2, env=env, **given)
    check_stays_with_gloo(ranks)
    assert re.search(f"{messages.STAYS}: {reason}", ranks[0].err)


def test_a_rank_that_cannot_open_the_library(
    plugin: Plugin, launch: Launcher, tmp_path: Path
) -> None:
    """A library of gRPC, DPDK or the cards is missing on it; torch and the plugin are imported."""
    copied = shutil.copytree(plugin.package, tmp_path / plugin.package.name)
    break_library(copied / render.LIBRARY)
    check_hidden_library(launch, {"PYTHONPATH": str(tmp_path)})


def digest(*sources: bytes) -> str:
    whole = "".join(hashlib.sha256(source).hexdigest() for source in sources)
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


def test_ranks_of_two_versions(plugin: Plugin, launch: Launcher, tmp_path: Path) -> None:
    """Each knows a digest of its C++; where that of one rank is changed, all ranks take Gloo."""
    files = render.compiled_files("")
    sources = [path for path in files if path.endswith((".cpp", ".hpp"))]
    order = sorted(sources, key=lambda path: ("/" not in path, path))  # the callers come last
    shared = digest(*(files[path] for path in order))
    own = digest(
        *(
            render.text(f"plugin/src/ProcessGroupSwitchML.{suffix}").encode()
            for suffix in ("cpp", "hpp")
        )
    )
    copied = shutil.copytree(plugin.package, tmp_path / plugin.package.name)
    (module,) = copied.glob("_C*.so")
    module.write_bytes(module.read_bytes().replace(own.encode(), b"another.version!"))
    ranks = launch("outcome", 2, rank_env={1: {"PYTHONPATH": str(tmp_path)}})
    check_stays_with_gloo(ranks)
    assert [rank.result["report"]["sources"] for rank in ranks] == [shared, shared]
    other = f"{shared}another.version! where rank 0 has {shared}{own};"
    assert f"{messages.STAYS}: rank 1: switchml-patch with sources {other}" in ranks[0].err


@EITHER
def test_a_rank_that_is_not_patched(launch: Launcher, env: dict[str, str]) -> None:
    stock = {"SWITCHML_TEST_BACKEND": "gloo"}
    ranks = launch("refused", 2, rank_env={1: stock}, env=env, timeout=SHORT)
    assert "rank 1 of 2 did not answer while the group was made" in ranks[0].result["error"]


@EITHER
def test_no_packet_arrives(launch: Launcher, switch: Served, env: dict[str, str]) -> None:
    """The switch lets the ranks join; the pattern of the probe is longer than what passes."""
    with contextlib.closing(Relay()) as relay, relay.losing_after(10_000):
        relay.target = int(switch.address.rpartition(":")[2])
        ranks = launch("outcome", 2, config=behind(relay.port), env=env, timeout=SHORT)
    check_stays_with_gloo(ranks)
    assert f"{messages.STAYS}: ranks 0-1: the probe of 3073 int32 elements" in ranks[0].err
    assert [rank.result["report"]["step"] for rank in ranks] == ["probe"] * 2


@EITHER
@pytest.mark.parametrize("how", ["killed", "stopped", "controller killed", "cut off"])
def test_the_switch(launch: Launcher, switch: Served, how: str, env: Mapping[str, str]) -> None:
    """It is one with its controller here, and a cable of a rank is the rank's connection."""
    commands: dict[str, list[str] | int] = {
        "killed": ["kill", "-KILL", str(switch.aggregator)],
        "stopped": ["kill", "-STOP", str(switch.aggregator)],
        "controller killed": ["sh", "-c", f"kill -KILL {switch.process.pid}; sleep 1"],
        "cut off": int(switch.address.rpartition(":")[2]),
    }
    arguments = {"victim": 1, "command": commands[how], "goes_on": bool(env)}
    env = {"SWITCHML_TIMEOUT_MS": str(LIMIT_MS), **env}
    ranks = launch("breaks", 2, arguments=arguments, config=switch.config, env=env)
    late = messages.LATE.format(LIMIT_MS)
    for result in results(ranks):
        report = result["report"]
        if arguments["goes_on"]:
            assert (report["failure"], report["failover"]["failovers"]) == ("", 1)
            assert report["failover"]["calls"] > 0
            assert (late in report["failover"]["reason"]) == (how == "stopped")
            assert result["elapsed"] < GROUP
        else:
            assert result["first"].startswith(messages.FAILED)
            assert (late in result["first"]) == (how == "stopped")
            assert result["second"] == result["first"]


def test_ranks_that_gloo_connects_at_their_first_message(
    launch: Launcher, summing: Path, tmp_path: Path
) -> None:
    lazy = {"TORCH_GLOO_LAZY_INIT": "1"}
    check_failover(launch, summing, tmp_path, 3, "cpu_exponent_quantizer", 2, lazy)


@EITHER
def test_an_allreduce_that_is_dropped(launch: Launcher, env: dict[str, str]) -> None:
    check_dropped(launch, env, messages.FAILED)


@pytest.mark.parametrize("dies", [0, 3])
def test_tensors_of_a_device_outlive_the_switch(
    launch: Launcher, switch: Served, device: Path, dies: int
) -> None:
    arguments = {"switch": switch.aggregator, "dies": dies}
    check_device_outlives(launch, device, arguments, config=switch.config)


@EITHER
def test_a_device_that_is_late(launch: Launcher, device: Path, env: dict[str, str]) -> None:
    check_late_device(launch, device, env, timeout=SHORT)
