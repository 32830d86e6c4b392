"""Groups that torch makes of another one, by itself or with other ranks, and records of calls."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version
from support import messages
from support.launcher import Launcher
from support.torch import Plugin, results, version_of
from support.waiting import SHORT, captured

FOR_GLOO = {"SWITCHML_FOR_GLOO": "1"}


def need(torch: Path, release: str, what: str) -> None:
    """Skips where torch is older."""
    if Version(version_of(torch)) < Version(release):
        pytest.skip(f"{what} since torch {release}: name another one by TORCH")


@pytest.fixture
def today(torch: Path) -> None:
    """Skips where stock Gloo can do none of this."""
    need(torch, "2.15", "groups of the CPU are split and reconfigured")


@pytest.mark.usefixtures("today")
@pytest.mark.parametrize("busy", [True, False])
def test_a_part_of_a_group_agrees_for_itself(launch: Launcher, *, busy: bool) -> None:
    for rank in results(launch("plugin_groups:split", 2, arguments={"busy": busy})):
        if busy:
            assert rank["group"].endswith(messages.OTHER_GROUP)
            assert rank["counted"] == [0, 2]
        else:
            assert messages.DELEGATES in rank["group"]
            assert rank["counted"] == [1, 0]


@pytest.mark.usefixtures("today")
def test_a_part_that_must_delegate_and_cannot(launch: Launcher) -> None:
    ranks = launch("plugin_groups:split_required", 4, env={"SWITCHML_REQUIRE": "1"})
    errors = [result["error"] for result in results(ranks)]
    wanted = (messages.REQUIRED, messages.PART.format(2, 4))
    output = "\n".join([*errors, *(rank.err for rank in ranks)])
    assert all(words in error for error in errors for words in wanted), output


@pytest.mark.parametrize("name", ["switchml", "gloo"])
def test_log_of_distributed_data_parallel(launch: Launcher, name: str) -> None:
    """It may take no group for an object of Gloo's class."""
    env = FOR_GLOO if name == "gloo" else {}
    ranks = launch("plugin_groups:logged", 2, arguments={"backend": name}, env=env)
    results(ranks)
    assert messages.DELEGATES in ranks[0].err


@pytest.mark.usefixtures("today")
@pytest.mark.parametrize(
    ("case", "world"),
    [
        ("split_and_ended", 2),  # torch drops the last reference, with the GIL held
        ("subgroup_of_a_device", 3),
        ("reconfigured_first", 2),
    ],
)
def test_case(launch: Launcher, case: str, world: int) -> None:
    """The assertions are in the case."""
    results(launch(f"plugin_groups:{case}", world))


def test_merged_groups(launch: Launcher, torch: Path, tmp_path: Path) -> None:
    need(torch, "2.9", "groups are merged")
    ranks = results(launch("plugin_groups:merged", 2, arguments={"store": str(tmp_path)}))
    assert [rank["counted"] for rank in ranks] == [1, 1]


@pytest.mark.usefixtures("today")
def test_reconfigured_groups_sum_over_their_ranks(launch: Launcher) -> None:
    for rank in results(launch("plugin_groups:reconfigured", 4)):
        assert rank["pairs"]["reason"].endswith(messages.PART.format(2, 4))
        assert rank["pairs"]["fallbacks"]["group"] == 2
        assert rank["again"] == 1


def call_of(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what an entry of the flight recorder says of its call, but for the numbers."""
    group, description = entry["process_group"]
    name = entry["profiling_name"].rpartition(":")[2]
    sizes, limit = entry["input_sizes"], entry["timeout_ms"]
    frames = [frame["name"] for frame in entry["frames"]]
    return (group.removesuffix(" switchml"), description, name, sizes, limit, frames)


@pytest.mark.usefixtures("today")
@pytest.mark.parametrize("size", [20, 2000])
def test_flight_recorder_has_what_that_of_stock_torch_has(launch: Launcher, size: int) -> None:
    """Delegated calls are a sequence from 1 on, of a group with a name of its own."""
    ours, stock = (
        results(
            launch(
                "plugin_groups:recorded",
                2,
                arguments={"backend": backend, "analyze": True},
                env={"TORCH_FR_BUFFER_SIZE": str(size)},
            )
        )
        for backend in ("switchml", "gloo")
    )
    kept = min(size, 24)  # older ones have made room
    for rank, other in zip(ours, stock):
        assert [*map(call_of, rank["entries"])] == [*map(call_of, other["entries"])]
        assert len(rank["entries"]) == kept
        assert rank["sequence"] == other["sequence"]
        assert rank["report"]["calls"] == 8
        delegated = 8
        for own, before in zip(reversed(rank["entries"]), reversed(other["entries"])):
            numbers = (own["collective_seq_id"], own["op_id"])
            if own["profiling_name"] == "switchml:all_reduce":
                assert own["process_group"] == ["0 switchml", "default_pg"]
                assert (*numbers, own["state"]) == (delegated, delegated, "completed")
                delegated -= 1
            else:
                assert own["process_group"] == before["process_group"]
                others = delegated if own["process_group"][0] == "0" else 0
                counted = (before["collective_seq_id"] - others, before["op_id"] - others)
                assert numbers == counted
        assert delegated == (2 if size == 20 else 0)
        assert len(rank["analyzed"]) == kept
        assert all(found[1:] == [True, None] for found in rank["analyzed"]), "all ranks match"


def test_flight_recorder_that_has_gloos_own_calls_alone(launch: Launcher, torch: Path) -> None:
    """An extension cannot reach that of an older torch."""
    if not Version("2.13") <= Version(version_of(torch)) < Version("2.15"):
        pytest.skip("it has Gloo's calls, and no others, in torch 2.13 and 2.14: name one by TORCH")
    ours, stock = (
        results(launch("plugin_groups:recorded", 2, arguments={"backend": backend}))
        for backend in ("switchml", "gloo")
    )
    for rank, other in zip(ours, stock):
        own, expected = (
            [call_of(entry)[:4] for entry in found["entries"]] for found in (rank, other)
        )
        assert rank["report"]["calls"] == 8
        for numel in (3, 4, 6, 7) * 2:
            expected.remove(("0", "default_pg", "all_reduce", [[numel]]))
        assert own == expected


@pytest.mark.usefixtures("today")
def test_flight_recorder_shows_a_call_that_waits(launch: Launcher) -> None:
    states = launch("plugin_groups:unfinished", 2, timeout=SHORT)[0].result["states"]
    assert states == [[[[2]], "completed"], [[[3]], "scheduled"]]


@pytest.mark.parametrize("how", ["abort", "shutdown", "destroy"])
def test_callbacks_that_end_their_group(launch: Launcher, torch: Path, how: str) -> None:
    need(torch, "2.6", "a backend is aborted")
    results(launch("plugin_groups:ended_in_callbacks", 2, arguments={"how": how}, limit=120))


@pytest.mark.parametrize("backend", ["gloo", "cpu:gloo", "switchml", "cpu:switchml"])
@pytest.mark.parametrize("env", [{}, FOR_GLOO], ids=["0", "1"])
def test_group_is_as_one_of_gloo(
    launch: Launcher, torch: Path, backend: str, env: dict[str, str]
) -> None:
    """An installed plugin changes none of stock Gloo's either."""
    need(torch, "2.6", "timeouts of Gloo's groups are set")
    env = {**env, "SWITCHML_REQUIRE": "0"}
    own = "switchml" if "switchml" in backend else "gloo"
    ranks = launch("plugin_groups:asked_as_gloo", 2, arguments={"backend": backend}, env=env)
    delegates = own == "switchml" or "SWITCHML_FOR_GLOO" in env
    for result in results(ranks):
        assert result["answers"] == ["gloo", own, 2, 44]
        assert result["report"]["calls"] == delegates


@pytest.mark.parametrize("case", ["options", "zero"])
def test_case_of_any_torch(launch: Launcher, case: str) -> None:
    """The assertions are in the case."""
    results(launch(f"plugin_groups:{case}", 2))


@pytest.mark.parametrize("autoload", ["1", "0"])
def test_backend_without_an_import(plugin: Plugin, torch: Path, autoload: str) -> None:
    """By its entry point; `import torch` alone loads nothing that is large."""
    need(torch, "2.5", "backends of others are loaded")
    code = (
        "import sys, torch, torch.distributed as dist\n"
        "assert 'torch_switchml' not in sys.modules\n"
        "dist.init_process_group('switchml', store=dist.HashStore(), rank=0, world_size=1)\n"
        "t = torch.ones(2, dtype=torch.float64); dist.all_reduce(t); print(t.tolist())\n"
        "print(dist.get_backend(), dist.is_backend_available('switchml'))\n"
        "dist.destroy_process_group()\n"
    )
    done = captured(
        [plugin.python, "-c", code],
        env={"TORCH_DEVICE_BACKEND_AUTOLOAD": autoload, "GLOO_SOCKET_IFNAME": "lo"},
    )
    if autoload == "0" and Version(version_of(torch)) < Version("2.14"):
        assert done.returncode != 0, "docs/plugin.md says what to import"
    else:
        assert done.stdout == "[1.0, 1.0]\nswitchml True\n", done.stderr
