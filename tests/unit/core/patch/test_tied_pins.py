"""Releases with the same hooked files, as 1.8.0, 1.8.1 and 1.8.2: which pin a tree is of."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import miniature

from patchgen.core.patch import pins, render, report, state, tree
from patchgen.core.patch.pins import Pin
from patchgen.errors import TreeError
from patchgen.options import Options

OPTIONS = Options(("DPDK",), "/opt/switchml", "/opt/grpc", "/opt/dpdk")


@pytest.fixture
def known(tmp_path: Path) -> list[Pin]:
    """Return three pins of the files in tmp_path, and one of other files."""
    pin = miniature.write(tmp_path)
    tied = [
        pin._replace(name=f"v1.8.{number}", version=f"1.8.{number}", commit=f"{number}" * 40)
        for number in range(3)
    ]
    return [*tied, next(pins.read_shipped())]


def check_out(root: Path, commit: str) -> None:
    (root / ".git").mkdir()
    (root / ".git/HEAD").write_text(f"{commit}\n")


@pytest.mark.parametrize("number", range(3))
def test_the_named_pin_wins(tmp_path: Path, known: list[Pin], number: int) -> None:
    check_out(tmp_path, known[1].commit)
    named = known[number]
    assert state.inspect(str(tmp_path), known, named).pin == named
    assert tree.apply(str(tmp_path), OPTIONS, known, named).pin == named
    found = state.inspect(str(tmp_path), known, named)
    assert (found.overall, found.made_for) == (state.Overall.PATCHED, named.name)
    assert tree.revert(str(tmp_path), known, named).pin == named


@pytest.mark.parametrize("number", range(3))
def test_the_commit_decides(tmp_path: Path, known: list[Pin], number: int) -> None:
    check_out(tmp_path, known[number].commit)
    assert state.inspect(str(tmp_path), known).pin == known[number]
    assert tree.apply(str(tmp_path), OPTIONS, known).pin == known[number]
    assert tree.revert(str(tmp_path), known).pin == known[number]
    assert tree.patched_sources(str(tmp_path), known, known[2])[0] == known[2]


@pytest.mark.parametrize("commit", ["", "f" * 40])
def test_a_tie_is_shown_and_refused(tmp_path: Path, known: list[Pin], commit: str) -> None:
    if commit:
        check_out(tmp_path, commit)
    found = state.inspect(str(tmp_path), known)
    assert (found.overall, found.pin) == (state.Overall.CLEAN, None)
    assert list(found.tied) == known[:3]
    first, note = report.state_lines(found)
    assert first.endswith(
        ": clean v1.8.0 (000000000000) or v1.8.1 (111111111111) or v1.8.2 (222222222222)"
    )
    message = "its hooked files are those of v1.8.0, v1.8.1 and v1.8.2; name one with --pytorch"
    assert note == f"  note: {message}"
    before = {path.name for path in tmp_path.rglob("*")}
    with pytest.raises(TreeError) as applied:
        tree.apply(str(tmp_path), OPTIONS, known)
    with pytest.raises(TreeError) as reverted:
        tree.revert(str(tmp_path), known)
    assert str(applied.value) == str(reverted.value)
    assert str(applied.value).endswith(message)
    assert {path.name for path in tmp_path.rglob("*")} == before


def test_the_pin_of_a_patched_tree_is_in_it(tmp_path: Path, known: list[Pin]) -> None:
    check_out(tmp_path, known[0].commit)
    tree.apply(str(tmp_path), OPTIONS, known, known[2])
    found = state.inspect(str(tmp_path), known)
    assert (found.pin, found.options) == (known[2], OPTIONS)
    assert tree.revert(str(tmp_path), known).pin == known[2]


def test_another_of_them_can_be_named_afterwards(tmp_path: Path, known: list[Pin]) -> None:
    tree.apply(str(tmp_path), OPTIONS, known, known[1])
    found = state.inspect(str(tmp_path), known, known[2])
    assert (found.overall, found.made_for) == (state.Overall.PATCHED, "v1.8.1")
    assert "patched for v1.8.1 with DPDK=1" in "\n".join(report.state_lines(found))
    flags = render.flags_path(known[2])
    assert tree.apply(str(tmp_path), OPTIONS, known, known[2]).changed == (flags,)
    assert state.inspect(str(tmp_path), known).pin == known[2]


def test_a_tree_that_is_patched_for_an_unknown_pin(tmp_path: Path, known: list[Pin]) -> None:
    tree.apply(str(tmp_path), OPTIONS, known, known[1])
    with pytest.raises(TreeError, match=r"written for the pin v1\.8\.1; .* --pytorch v1\.8\.1"):
        tree.revert(str(tmp_path), known[:1])
    tree.revert(str(tmp_path), known[:2])
    assert state.inspect(str(tmp_path), known[:1]).overall is state.Overall.CLEAN


def test_a_named_pin_of_other_files(tmp_path: Path, known: list[Pin]) -> None:
    check_out(tmp_path, known[2].commit)
    with pytest.raises(TreeError, match=r"this is v1\.8\.2, not v1\.7\.1"):
        tree.apply(str(tmp_path), OPTIONS, known, known[3])
