"""torch.distributed's documented functions: each has the outcome that it has without the patch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest
from support.launcher import Launcher
from support.table import (
    Answers,
    answers,
    begin_table,
    check_all_summed,
    differences,
    run_table,
    summed,
)

SUPPORTED = (
    "send and recv",
    "broadcast",
    "all_reduce",
    "reduce",
    "all_gather",
    "gather",
    "scatter",
)
FEW = [
    "all_reduce SUM float32",
    "all_reduce SUM float64",
    "broadcast float32",
    "data_parallel",
    "init_after_destroy",
]


@pytest.fixture(scope="module")
def stock(launch: Launcher, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Answers]:
    """The table of a debug level without the patch, run once."""

    @functools.cache
    def of_level(level: str) -> Answers:
        return run_table(launch, tmp_path_factory.mktemp("stock") / "table", level, preload=False)

    return of_level


def test_every_function_is_there_in_stock(stock: Callable[[str], Answers]) -> None:
    for rank in stock("OFF"):
        assert rank["report"] is None
        assert len(rank["cells"]) > 200
        for name in SUPPORTED:
            for dtype in ("float32", "float64", "uint8", "int32", "int64"):
                full = f"{name} SUM {dtype}" if "reduce" in name else f"{name} {dtype}"
                assert rank["cells"][full][0] == "returned", full


@pytest.mark.parametrize("level", ["OFF", "DETAIL"])
def test_same_outcome_when_delegating(
    stock: Callable[[str], Answers], launch: Launcher, tmp_path: Path, level: str
) -> None:
    delegating = begin_table(launch, tmp_path / "table", level, preload=True)
    expected = stock(level)  # meanwhile
    mine = delegating()
    assert differences(mine, expected) == []
    check_all_summed(mine)
    for rank in mine:
        how, message, _ = rank["cells"]["debug_level"]
        assert message == f"DebugLevel.{level}" or how == "raised", "before torch 1.11"


def test_same_outcome_when_disabled(
    stock: Callable[[str], Answers], launch: Launcher, tmp_path: Path
) -> None:
    mine = run_table(launch, tmp_path / "table", "OFF", preload=True, SWITCHML_DISABLE="1")
    assert differences(mine, stock("OFF")) == []
    for rank in mine:
        assert summed(rank) == set()


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


def test_same_outcome_at_the_level_between(launch: Launcher, few: Answers, tmp_path: Path) -> None:
    """It changes what torch logs, and no group, so a few cells are enough."""
    arguments = {"directory": str(tmp_path), "only": [*FEW, "debug_level"]}
    env = {"TORCH_DISTRIBUTED_DEBUG": "INFO"}
    mine = answers(launch("table:run", 2, arguments=arguments, env=env), tmp_path, 2)
    for rank in mine:
        how, message, _ = rank["cells"].pop("debug_level")
        assert message == "DebugLevel.INFO" or how == "raised", "before torch 1.11"
    same_few(mine, few)


def test_spawned(launch: Launcher, few: Answers, tmp_path: Path) -> None:
    configs = launch.prepare(2, config={"prepostprocessor": "bypass"})
    given = {"directory": str(tmp_path), "only": FEW, "world_size": 2, "configs": str(configs)}
    ranks = launch("table:spawn", 1, arguments=given, fresh=True)
    same_few(answers(ranks, tmp_path, 2), few)
