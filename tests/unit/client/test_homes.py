from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from patchgen.client import homes
from patchgen.options import resolve

if TYPE_CHECKING:
    from pathlib import Path

SWITCHML = ["include/switchml/context.h", "lib/libswitchml-client.a"]
GRPC = ["lib/pkgconfig/protobuf.pc", "lib/pkgconfig/grpc++.pc"]


def fill(directory: Path, names: list[str]) -> None:
    for name in names:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).touch()


@pytest.mark.parametrize(
    ("flags", "variables"),
    [
        ({}, ["SWITCHML_HOME"] * 2),
        ({"rdma": True}, ["SWITCHML_HOME"] * 2 + ["GRPC_HOME"] * 2),
        ({"dpdk": True}, ["SWITCHML_HOME"] * 2 + ["DPDK_HOME"] * 2 + ["GRPC_HOME"] * 2),
    ],
)
def test_everything_is_missing(
    tmp_path: Path, flags: dict[str, bool], variables: list[str]
) -> None:
    found = homes.find_missing(resolve(flags, {}, str(tmp_path)))
    assert [one.variable for one in found] == variables
    assert all(str(one).startswith(f"{one.variable}: no {tmp_path}/") for one in found)


def test_a_home_that_says_where_the_others_are(tmp_path: Path) -> None:
    fill(tmp_path / "build", [*SWITCHML, "lib/pkgconfig/switchml-client.pc"])
    assert homes.find_missing(resolve({"dpdk": True}, {}, str(tmp_path))) == []


@pytest.mark.parametrize("library", ["lib/libdpdk.a", "lib/libdpdk.so"])
def test_nothing_is_missing(tmp_path: Path, library: str) -> None:
    root = tmp_path / os.fsdecode(b"h \xff")
    fill(root / "build", SWITCHML)
    fill(root / "third_party/grpc/build", GRPC)
    fill(root / "third_party/dpdk/build", ["include/rte.h", library])
    assert homes.find_missing(resolve({"dpdk": True}, {}, str(root))) == []
