"""The table of torch.distributed's documented functions: run by ranks, compared with stock."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from patchgen.system.ports import free_port
from support.launcher import Launcher, Rank

Answers = list[dict[str, Any]]  # of every rank

WORLD = 4
BETTER = {"all_reduce_with_gaps"}  # stock Gloo takes a tensor with gaps for one without
SUMS = {f"all_reduce SUM {dtype}" for dtype in ("float32", "int32", "float16", "bfloat16")}
AVERAGES = {f"all_reduce AVG {dtype}" for dtype in ("float32", "float16", "bfloat16")}
# Since 1.8 torch takes a complex tensor as twice as many float32.
COMPLEX = {"all_reduce SUM complex64", "all_reduce AVG complex64"}
UNWRAPPED = ("PRODUCT", "MIN", "BAND", "BOR", "BXOR", "uint8", "int8", "int16")
"""Words of the cells that run at the debug level OFF only.

At other levels torch wraps the group, and the wrapper passes these calls on like similar ones.
"""
ADDED = SUMS | AVERAGES | COMPLEX
"""Cells that raise in stock Gloo of some releases, and that SwitchML sums."""
OTHERS_TOO = {
    *("all_reduce_async", "all_reduce_large", "all_reduce_transposed", "all_reduce_coalesced"),
    "several_groups",
    *("data_parallel", "data_parallel_with_hook", "data_parallel_with_uneven_inputs"),
    *("third_party_gloo", "third_party_in_python"),
    *("init_with_file", "init_with_tcp", "init_with_env", "init_with_tcp_store"),
}


def answers(ranks: list[Rank], directory: Path, world: int) -> Answers:
    for rank in ranks:
        assert rank.code == 0, f"exit code {rank.code}:\n{rank.out}\n{rank.err}"
    return [json.loads((directory / f"{number}.json").read_text()) for number in range(world)]


def cells(directory: Path, level: str, env: Mapping[str, str]) -> dict[str, Any]:
    """Make a directory for the answers; return how to launch ranks that leave them there."""
    directory.mkdir()
    arguments: dict[str, Any] = {
        "directory": str(directory), "ports": [free_port() for _ in range(3)],
    }  # fmt: skip
    if level != "OFF":
        arguments["without"] = UNWRAPPED
    given = {**({} if level == "OFF" else {"TORCH_DISTRIBUTED_DEBUG": level}), **env}
    return {"arguments": arguments, "env": given, "timeout": 120}


def run_table(
    launch: Launcher, directory: Path, level: str, *, preload: bool, **env: str
) -> Answers:
    ranks = launch("table:run", WORLD, preload=preload, **cells(directory, level, env))
    return answers(ranks, directory, WORLD)


def begin_table(
    launch: Launcher, directory: Path, level: str, *, preload: bool
) -> Callable[[], Answers]:
    """Start the ranks as `run_table` does; return a function that waits for them."""
    ranks = launch.begin("table:run", WORLD, preload=preload, **cells(directory, level, {}))
    return lambda: answers(launch.collect(ranks), directory, WORLD)


def differences(mine: Answers, stock: Answers) -> list[str]:
    """List every cell of every rank with another outcome than in stock.

    But for `BETTER`, and for `ADDED` where stock raises.
    """
    assert [list(rank["cells"]) for rank in mine] == [list(rank["cells"]) for rank in stock]
    return [
        f"rank {number}, {name}: {mine[number]['cells'][name][:2]}, in stock {expected[:2]}"
        for number, rank in enumerate(stock)
        for name, expected in rank["cells"].items()
        if mine[number]["cells"][name][:2] != expected[:2]
        and name not in BETTER
        and not (name in ADDED and expected[0] == "raised")
    ]


def summed(rank: dict[str, Any]) -> set[str]:
    """Return names of the cells of which SwitchML has summed a part."""
    return {name for name, (_, _, calls) in rank["cells"].items() if calls}


def check_all_summed(mine: Answers) -> None:
    """Check that SwitchML has summed what it takes, and rightly where stock does not."""
    for number, rank in enumerate(mine):
        reduced = {name for name in summed(rank) if name.startswith("all_reduce ")}
        assert SUMS <= reduced <= ADDED
        assert reduced >= AVERAGES or rank["cells"]["all_reduce AVG float32"][0] == "raised"
        for name in reduced:
            values = [10, 14, 6] if "SUM" in name else [2.5, 3.5, 1.5]
            right = [[value, 0] for value in values] if "complex" in name else values
            assert rank["cells"][name][1][2] == right, name
        present = {name for name, (how, _, _) in rank["cells"].items() if how == "returned"}
        assert present & OTHERS_TOO <= summed(rank)
        assert rank["report"]["failure"] == ""
        values = rank["cells"]["all_reduce_with_gaps"][1][2]
        gaps = [(i + 1) % 3 + number for i in range(12)]
        assert values == [gaps[i] if i % 3 else 10 for i in range(12)]
