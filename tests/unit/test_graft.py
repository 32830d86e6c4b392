"""Which torch a source belongs to, and where its headers are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from patchgen import pins
from patchgen.errors import ToolError, TreeError
from patchgen.graft import Torch, check_version, gloo_headers

if TYPE_CHECKING:
    from pathlib import Path

PIN = pins.find("1.13.1", pins.shipped())


def torch(version: str = "1.13.1", commit: str = "Unknown", root: str = "/nowhere") -> Torch:
    return Torch(version, commit, None, cxx11_abi=True, gloo=True, root=root)


@pytest.mark.parametrize(
    ("version", "commit"),
    [
        ("1.13.1", "Unknown"),
        ("1.13.1+cpu", "Unknown"),
        ("1.13.0a0", "Unknown"),
        ("anything", PIN.commit),
    ],
)
def test_same_release(version: str, commit: str) -> None:
    check_version(torch(version, commit), PIN)


@pytest.mark.parametrize(
    ("version", "commit"),
    [("1.12.1", "Unknown"), ("1.13.10", "Unknown"), ("2.1.0", "Unknown"), ("1.13.1", "0" * 40)],
)
def test_another_release(version: str, commit: str) -> None:
    with pytest.raises(TreeError, match=r"a graft is made from the source of its own torch"):
        check_version(torch(version, commit), PIN)


def test_headers_of_torch_come_before_those_of_the_source(tmp_path: Path) -> None:
    source, package = tmp_path / "source", tmp_path / "torch"
    (source / "third_party/gloo/gloo").mkdir(parents=True)
    (source / "third_party/gloo/gloo/allreduce.h").touch()
    (package / "include/ATen").mkdir(parents=True)
    assert gloo_headers(source, torch(root=str(package))) == str(source / "third_party/gloo")
    (package / "include/gloo").mkdir()
    (package / "include/gloo/allreduce.h").touch()
    assert gloo_headers(source, torch(root=str(package))) == str(package / "include")


def test_missing_headers_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.path.exists", lambda _: False)
    with pytest.raises(ToolError, match="install libgloo-dev"):
        gloo_headers(tmp_path, torch())
