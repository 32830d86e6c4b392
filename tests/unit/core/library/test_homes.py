from __future__ import annotations

import os
from pathlib import Path

import pytest

from patchgen.core.library import homes
from patchgen.options import resolve

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


@pytest.mark.parametrize(
    ("flags", "changed"),
    [
        ({}, "switchml/include/switchml/context.h"),
        ({}, "switchml/lib/libswitchml-client.a"),
        ({}, "switchml/lib/pkgconfig/switchml-client.pc"),
        ({"dpdk": True}, "dpdk/lib/libdpdk.a"),
        ({"dpdk": True}, "grpc/lib/pkgconfig/grpc++.pc"),
    ],
)
def test_stamps_tell_a_home_that_was_written_anew(
    tmp_path: Path, flags: dict[str, bool], changed: str
) -> None:
    places = {f"{name}_home": str(tmp_path / name) for name in ("switchml", "dpdk", "grpc")}
    options = resolve({**flags, **places}, {}, "/")
    fill(tmp_path / "switchml", SWITCHML)
    before = homes.stamp_homes(options)
    assert homes.stamp_homes(options) == before
    (tmp_path / changed).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / changed).write_text("another")
    assert homes.stamp_homes(options) != before
