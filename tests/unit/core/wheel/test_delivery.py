"""Files beside a wheel."""

from __future__ import annotations

from support.wheelhouse import PROVENANCE

from patchgen.core.patch.recipes import Recipe
from patchgen.core.wheel import delivery


def lines(version: str, recipe: Recipe) -> list[str]:
    text = delivery.compose_constraints(version, recipe)
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_constraints_name_this_torch_and_what_it_runs_with() -> None:
    recipe = PROVENANCE.pin.recipe
    assert lines("1.7.1+switchml", recipe) == ["torch==1.7.1+switchml", "numpy<1.24"]
    assert lines("1.7.1+switchml.rdma", Recipe()) == ["torch==1.7.1+switchml.rdma"]


def test_companions_are_of_the_recipe() -> None:
    first, second = delivery.list_commands("py", "/w/a.whl", "/w/c.txt", PROVENANCE.pin.recipe)
    assert first == ("py", "-m", "pip", "install", "--force-reinstall", "--no-deps", "/w/a.whl")
    assert second[-4:] == ("--constraint", "/w/c.txt", "torch", "torchvision==0.8.2")
    assert delivery.list_commands("py", "a", "c", Recipe())[1][-1] == "torch"
