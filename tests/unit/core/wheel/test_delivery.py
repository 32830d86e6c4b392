"""Files beside a wheel, and a wheel of the same name that is where another one is to go."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from support.wheelhouse import PROVENANCE

from patchgen.core.patch.recipes import Recipe
from patchgen.core.wheel import delivery, provenance
from patchgen.core.wheel.provenance import WheelInputs


def delivered(directory: Path, content: bytes, origin: WheelInputs = PROVENANCE) -> WheelInputs:
    """Puts a wheel in place as a build does, and gives its provenance."""
    digest = hashlib.sha256(content).hexdigest()
    made = replace(origin, wheel=replace(origin.wheel, sha256=digest))
    wheel = directory / made.wheel.name
    wheel.write_bytes(content)
    provenance.write(str(wheel), made)
    return made


def of_another_home() -> WheelInputs:
    other = replace(PROVENANCE.options, switchml_home="/opt/other")
    return replace(PROVENANCE, options=other)


def move(directory: Path, origin: WheelInputs) -> str | None:
    return delivery.move_aside(str(directory / origin.wheel.name), origin)


def test_one_of_another_home_is_moved_with_what_is_beside_it(tmp_path: Path) -> None:
    first = delivered(tmp_path, b"first")
    name = first.wheel.name
    place = tmp_path / first.wheel.sha256[:12]
    assert move(tmp_path, of_another_home()) == str(place)
    assert [path.name for path in tmp_path.iterdir()] == [place.name]
    assert (place / name).read_bytes() == b"first"
    assert {path.name for path in place.iterdir()} == {name, f"{name}.provenance.json"}


def test_there_and_back_keeps_each_once(tmp_path: Path) -> None:
    first = delivered(tmp_path, b"first")
    move(tmp_path, of_another_home())
    second = delivered(tmp_path, b"second", of_another_home())
    move(tmp_path, first)
    delivered(tmp_path, b"first")
    move(tmp_path, second)
    assert sorted(path.parent.name for path in tmp_path.rglob("*.whl")) == sorted(
        [first.wheel.sha256[:12], second.wheel.sha256[:12]]
    )


def test_another_build_of_the_same_takes_its_place(tmp_path: Path) -> None:
    first = delivered(tmp_path, b"first")
    again = replace(first, wheel=replace(first.wheel, sha256="a" * 64))
    assert move(tmp_path, again) is None
    assert move(tmp_path, first) is None
    assert (tmp_path / first.wheel.name).read_bytes() == b"first"


def test_one_that_nothing_is_known_of_is_moved(tmp_path: Path) -> None:
    wheel = tmp_path / PROVENANCE.wheel.name
    assert move(tmp_path, PROVENANCE) is None
    for content in (None, b"{", b"[]", b'{"subject": []}'):
        wheel.write_bytes(b"of somebody")
        if content is not None:
            (tmp_path / f"{wheel.name}.provenance.json").write_bytes(content)
        place = move(tmp_path, PROVENANCE)
        assert place == str(tmp_path / hashlib.sha256(b"of somebody").hexdigest()[:12])
        assert not wheel.exists()
    stale = delivered(tmp_path, b"first")
    wheel.write_bytes(b"changed since")
    assert move(tmp_path, stale) == str(
        tmp_path / hashlib.sha256(b"changed since").hexdigest()[:12]
    )


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
