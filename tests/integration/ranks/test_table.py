"""torch.distributed's documented functions: each has the outcome that it has without the patch."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

import pytest

from patchgen.system.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from support.launcher import Launcher, Rank

Answers = list[dict[str, Any]]  # of every rank

pytestmark = pytest.mark.integration

WORLD = 4
SUPPORTED = (
    "send and recv",
    "broadcast",
    "all_reduce",
    "reduce",
    "all_gather",
    "gather",
    "scatter",
)
BETTER = {"all_reduce_with_gaps"}  # stock Gloo takes a tensor with gaps for one without
SUMS = {f"all_reduce SUM {dtype}" for dtype in ("float32", "int32", "float16", "bfloat16")}
AVERAGES = {f"all_reduce AVG {dtype}" for dtype in ("float32", "float16", "bfloat16")}
# Since 1.8 torch takes a complex tensor as twice as many float32.
COMPLEX = {"all_reduce SUM complex64", "all_reduce AVG complex64"}
ADDED = SUMS | AVERAGES | COMPLEX
"""What stock Gloo raises for in some releases, and SwitchML sums all the same."""
OTHERS_TOO = {
    *("all_reduce_async", "all_reduce_large", "all_reduce_transposed", "all_reduce_coalesced"),
    "several_groups",
    *("data_parallel", "data_parallel_with_hook", "data_parallel_with_uneven_inputs"),
    *("third_party_gloo", "third_party_in_python"),
    *("init_with_file", "init_with_tcp", "init_with_env", "init_with_tcp_store"),
}
FEW = [
    "all_reduce SUM float32",
    "all_reduce SUM float64",
    "broadcast float32",
    "data_parallel",
    "init_after_destroy",
]


def answers(ranks: list[Rank], directory: Path, world: int) -> Answers:
    for rank in ranks:
        assert rank.code == 0, f"exit code {rank.code}:\n{rank.out}\n{rank.err}"
    return [json.loads((directory / f"{number}.json").read_text()) for number in range(world)]


def cells(directory: Path, level: str, env: Mapping[str, str]) -> dict[str, Any]:
    """How ranks are launched that leave their answers in a directory, which is made."""
    directory.mkdir()
    arguments = {"directory": str(directory), "ports": [free_port() for _ in range(3)]}
    given = {**({} if level == "OFF" else {"TORCH_DISTRIBUTED_DEBUG": level}), **env}
    return {"arguments": arguments, "env": given, "timeout": 120}


def table(launch: Launcher, directory: Path, level: str, *, preload: bool, **env: str) -> Answers:
    ranks = launch("table:run", WORLD, preload=preload, **cells(directory, level, env))
    return answers(ranks, directory, WORLD)


def begun(launch: Launcher, directory: Path, level: str, *, preload: bool) -> Callable[[], Answers]:
    """The same, but what is returned waits for the ranks."""
    ranks = launch.begin("table:run", WORLD, preload=preload, **cells(directory, level, {}))
    return lambda: answers(launch.collect(ranks), directory, WORLD)


@pytest.fixture(scope="module")
def stock(launch: Launcher, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Answers]:
    """The table of a debug level without the patch, run once."""

    @functools.cache
    def of_level(level: str) -> Answers:
        return table(launch, tmp_path_factory.mktemp("stock") / "table", level, preload=False)

    return of_level


def differences(mine: Answers, stock: Answers) -> list[str]:
    """A line for every cell of every rank with another outcome than in stock.

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
    """The cells of which SwitchML has summed a part."""
    return {name for name, (_, _, calls) in rank["cells"].items() if calls}


def all_summed(mine: Answers) -> None:
    """SwitchML has summed what it takes, and rightly where stock does not."""
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


def test_every_function_is_there_in_stock(stock: Callable[[str], Answers]) -> None:
    for rank in stock("OFF"):
        assert rank["report"] is None
        assert len(rank["cells"]) > 200
        for name in SUPPORTED:
            for dtype in ("float32", "float64", "uint8", "int32", "int64"):
                full = f"{name} SUM {dtype}" if "reduce" in name else f"{name} {dtype}"
                assert rank["cells"][full][0] == "returned", full


@pytest.mark.parametrize("level", ["OFF", "INFO", "DETAIL"])
def test_same_outcome_when_delegating(
    stock: Callable[[str], Answers], launch: Launcher, tmp_path: Path, level: str
) -> None:
    delegating = begun(launch, tmp_path / "table", level, preload=True)
    expected = stock(level)  # meanwhile
    mine = delegating()
    assert differences(mine, expected) == []
    all_summed(mine)
    for rank in mine:
        how, told, _ = rank["cells"]["debug_level"]
        assert told == f"DebugLevel.{level}" or how == "raised", "before torch 1.11"


def test_same_outcome_when_disabled(
    stock: Callable[[str], Answers], launch: Launcher, tmp_path: Path
) -> None:
    mine = table(launch, tmp_path / "table", "OFF", preload=True, SWITCHML_DISABLE="1")
    assert differences(mine, stock("OFF")) == []
    for rank in mine:
        assert summed(rank) == set()


def by_torchrun(launch: Launcher, launcher: list[str], directory: Path) -> Answers:
    directory.mkdir()
    arguments = {"directory": str(directory), "only": FEW}
    ranks = launch.torchrun("table:run", 2, launcher, arguments)
    return answers(ranks, directory, 2)


def by_spawn(launch: Launcher, directory: Path) -> Answers:
    directory.mkdir()
    configs = launch.prepare(2, config={"prepostprocessor": "bypass"})
    arguments = {
        "directory": str(directory),
        "only": FEW,
        "world_size": 2,
        "configs": str(configs),
    }
    ranks = launch("table:spawn", 1, arguments=arguments, fresh=True)
    return answers(ranks, directory, 2)


@pytest.fixture(scope="module")
def few(launch: Launcher, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """What two ranks do in stock, which is the same however they are started."""
    directory = tmp_path_factory.mktemp("few")
    arguments = {"directory": str(directory), "only": FEW}
    return answers(launch("table:run", 2, arguments=arguments, preload=False), directory, 2)


def same_few(mine: Answers, stock: Answers) -> None:
    assert differences(mine, stock) == []
    for rank in mine:
        assert summed(rank) == set(FEW) - {"all_reduce SUM float64", "broadcast float32"}


def test_launched(
    launch: Launcher, torch_launcher: list[str], few: Answers, tmp_path: Path
) -> None:
    same_few(by_torchrun(launch, torch_launcher, tmp_path / "mine"), few)


def test_spawned(launch: Launcher, few: Answers, tmp_path: Path) -> None:
    same_few(by_spawn(launch, tmp_path / "mine"), few)
