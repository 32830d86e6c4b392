"""Choice of the way by which SwitchML comes into the ranks, by what a torch has."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from support.demo_outcomes import TORCH as ANY_TORCH

from patchgen.core.torch import GRAFT, PLUGIN, TORCH, Installed, Support
from patchgen.errors import OptionsError
from patchgen.extras.train.job import Job
from patchgen.extras.train.ways import AUTO, STOCK, WAYS, Way, choose_way
from patchgen.system.interpreter import Interpreter
from patchgen.system.program import CompletedRun

REPORT = {"flags": "", "simulator": True}
THERE = ((), (TORCH,), (GRAFT,), (PLUGIN,), (TORCH, PLUGIN), (GRAFT, PLUGIN))
BUILT = {way: Way(way, is_built=True) for way in (GRAFT, PLUGIN)}


def installed(ways: Iterable[str]) -> Installed:
    interpreter = Interpreter(
        "/venv/bin/python", "/python", "3.11.2", "cpython", "linux-x86_64", "cp311", "", None,
        None, "/include", True, "/site", None, {}, {}, CompletedRun(0, b"", b""),  # noqa: FBT003
    )  # fmt: skip
    patched, graft, plugin = (
        Support(REPORT if way in ways else None) for way in (TORCH, GRAFT, PLUGIN)
    )
    return Installed(interpreter, ANY_TORCH, "", patched, graft, plugin, None, None, False)  # noqa: FBT003


@pytest.mark.parametrize("there", THERE)
def test_best_support_that_is_there_is_taken(there: tuple[str, ...]) -> None:
    chosen = Way(there[0]) if there else BUILT[PLUGIN]
    assert choose_way(installed(there), AUTO) == chosen


@pytest.mark.parametrize("there", THERE)
def test_stock_needs_nothing(there: tuple[str, ...]) -> None:
    assert choose_way(installed(there), STOCK) == Way(STOCK)


@pytest.mark.parametrize("there", THERE)
@pytest.mark.parametrize("asked", [GRAFT, PLUGIN])
def test_named_way_is_taken_or_built_unless_the_torch_is_patched(
    asked: str, there: tuple[str, ...]
) -> None:
    if asked in there:
        assert choose_way(installed(there), asked) == Way(asked)
    elif TORCH in there:
        with pytest.raises(OptionsError, match=f"/venv/bin/python is patched; drop --way {asked}"):
            choose_way(installed(there), asked)
    else:
        assert choose_way(installed(there), asked) == BUILT[asked]


@pytest.mark.parametrize("there", THERE)
def test_patch_is_never_built(there: tuple[str, ...]) -> None:
    if TORCH in there:
        assert choose_way(installed(there), TORCH) == Way(TORCH)
    else:
        with pytest.raises(OptionsError, match=r"the torch 2\.9\.0 of .* is not patched"):
            choose_way(installed(there), TORCH)


@pytest.mark.parametrize("way", sorted({*WAYS} - {AUTO, GRAFT}))
def test_given_graft_is_for_no_other_way(way: str) -> None:
    with pytest.raises(OptionsError, match=f"--graft is not for --way {way}"):
        Job(("true",), "/python", "/cache", "/", {}, way=way, graft="/graft.so")
    Job(("true",), "/python", "/cache", "/", {}, way=GRAFT, graft="/graft.so")
