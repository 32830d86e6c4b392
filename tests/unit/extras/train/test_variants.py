"""Choice of the variant by which SwitchML comes into the ranks, by what a torch has."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from support.demo_outcomes import TORCH as ANY_TORCH

from patchgen.core.torch import GRAFT, PLUGIN, TORCH, Installed, Support
from patchgen.errors import OptionsError
from patchgen.extras.train.job import Job
from patchgen.extras.train.variants import AUTO, STOCK, VARIANTS, Variant, choose_variant
from patchgen.system.interpreter import Interpreter
from patchgen.system.program import CompletedRun

REPORT = {"flags": "", "simulator": True}
THERE = ((), (TORCH,), (GRAFT,), (PLUGIN,), (TORCH, PLUGIN), (GRAFT, PLUGIN))
BUILT = {variant: Variant(variant, is_built=True) for variant in (GRAFT, PLUGIN)}


def installed(variants: Iterable[str]) -> Installed:
    interpreter = Interpreter(
        "/venv/bin/python", "/python", "3.11.2", "cpython", "linux-x86_64", "cp311", "", None,
        None, "/include", True, "/site", None, "works", {}, {}, CompletedRun(0, b"", b""),  # noqa: FBT003
    )  # fmt: skip
    patched, graft, plugin = (
        Support(REPORT if variant in variants else None) for variant in (TORCH, GRAFT, PLUGIN)
    )
    return Installed(interpreter, ANY_TORCH, "", patched, graft, plugin, None, None, False)  # noqa: FBT003


@pytest.mark.parametrize("there", THERE)
def test_best_support_that_is_there_is_taken(there: tuple[str, ...]) -> None:
    chosen = Variant(there[0]) if there else BUILT[PLUGIN]
    assert choose_variant(installed(there), AUTO) == chosen


@pytest.mark.parametrize("there", THERE)
def test_stock_needs_nothing(there: tuple[str, ...]) -> None:
    assert choose_variant(installed(there), STOCK) == Variant(STOCK)


@pytest.mark.parametrize("there", THERE)
@pytest.mark.parametrize("wanted", [GRAFT, PLUGIN])
def test_named_way_is_taken_or_built_unless_the_torch_is_patched(
    wanted: str, there: tuple[str, ...]
) -> None:
    if wanted in there:
        assert choose_variant(installed(there), wanted) == Variant(wanted)
    elif TORCH in there:
        patched = f"/venv/bin/python is patched; drop --variant {wanted}"
        with pytest.raises(OptionsError, match=patched):
            choose_variant(installed(there), wanted)
    else:
        assert choose_variant(installed(there), wanted) == BUILT[wanted]


@pytest.mark.parametrize("there", THERE)
def test_patch_is_never_built(there: tuple[str, ...]) -> None:
    if TORCH in there:
        assert choose_variant(installed(there), TORCH) == Variant(TORCH)
    else:
        with pytest.raises(OptionsError, match=r"the torch 2\.9\.0 of .* is not patched"):
            choose_variant(installed(there), TORCH)


@pytest.mark.parametrize("variant", sorted({*VARIANTS} - {AUTO, GRAFT}))
def test_given_graft_is_for_no_other_variant(variant: str) -> None:
    with pytest.raises(OptionsError, match=f"--graft is not for --variant {variant}"):
        Job(("true",), "/python", "/cache", "/", {}, variant=variant, graft="/graft.so")
    Job(("true",), "/python", "/cache", "/", {}, variant=GRAFT, graft="/graft.so")
