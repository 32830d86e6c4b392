from __future__ import annotations

import os
from pathlib import Path

import pytest
from support import unprivileged

from patchgen.core.library import archive
from patchgen.core.library.archive import Archive, ArchiveError, Mark, examine
from patchgen.core.library.homes import MODULE
from patchgen.core.wheel.check import homes
from patchgen.core.wheel.check.facts import find_client
from patchgen.options import resolve

ENTRY = b"_ZN8switchml7Context11GetInstanceEv\0"
MARK = Mark(
    "b5c74a04fa66faa82acab154a4e21c8f76d913f2",
    ("DPDK", "MLX5", "DUMMY", "TIMEOUTS"),
    ("duplicates", "resent-id"),
)
MARKS = {
    "DPDK": b"_ZTVN8switchml11DpdkBackendE\0",
    "RDMA": b"_ZTVN8switchml11RdmaBackendE\0",
    "DUMMY": b"_ZTVN8switchml12DummyBackendE\0",
    "timeouts": b"general.timeout_threshold\0",
    "mark": (
        b"switchml-patch-client: commit=b5c74a04fa66faa82acab154a4e21c8f76d913f2 "
        b"flags=DPDK,MLX5,DUMMY,TIMEOUTS fixes=duplicates,resent-id\0"
    ),
    "abi": b"_ZN8switchml6Config12LoadFromFileENSt7__cxx1112basic_stringIcEE\0",
    "release": b"Version info: \nCXXFLAGS=-std=c++17 -DNDEBUG -O3 GIT_REMOTE= GIT_HASH=\0",
    "debug": b"Version info: \nCXXFLAGS=-std=c++17 -DDEBUG -g -O0 GIT_REMOTE= GIT_HASH=\0",
}


def member(data: bytes, name: str = "context.o/") -> bytes:
    header = f"{name:<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(data):<10}`\n".encode()
    return header + data + b"\n" * (len(data) % 2)


def built(*marks: str) -> bytes:
    return b"!<arch>\n" + member(ENTRY) + member(b"".join(MARKS[mark] for mark in marks))


@pytest.mark.parametrize(
    ("marks", "expected", "about"),
    [
        (
            ["DUMMY", "timeouts", "abi", "release"],
            Archive(("DUMMY",), timeouts=True, cxx11_abi=True, debug=False),
            "built with DUMMY",
        ),
        (
            ["DPDK", "DUMMY", "timeouts", "abi", "debug"],
            Archive(("DPDK", "DUMMY"), timeouts=True, cxx11_abi=True, debug=True),
            "built with DPDK, DUMMY DEBUG=1",
        ),
        (
            ["DPDK", "DUMMY", "timeouts", "abi", "release", "mark"],
            Archive(("DPDK", "DUMMY"), timeouts=True, cxx11_abi=True, debug=False, mark=MARK),
            "built with DPDK, DUMMY from b5c74a0 with 2 fixes",
        ),
        (
            ["RDMA"],
            Archive(("RDMA",), timeouts=False, cxx11_abi=False, debug=None),
            (
                "built with RDMA (TIMEOUTS=0: lost packets are not sent again) "
                "(C++ ABI from before C++11)"
            ),
        ),
    ],
)
def test_what_an_archive_was_built_with(marks: list[str], expected: Archive, about: str) -> None:
    assert examine(built(*marks)) == expected
    assert expected.about == about


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"\x7fELF\2\1\1" + ENTRY, "is not an archive"),
        (b"!<arch>", "is not an archive"),
        (b"!<arch>\n", "holds no objects"),
        (b"!<thin>\n" + member(ENTRY), "is a thin archive, whose objects are elsewhere"),
        (built("DUMMY")[:-1], "is damaged or cut short"),
        (built("DUMMY")[:30], "is damaged or cut short"),
        (b"!<arch>\n" + b"\0" * 200, "is damaged or cut short"),
        (b"!<arch>\n" + member(b"other"), "does not define switchml::Context::GetInstance()"),
    ],
)
def test_no_client_library(data: bytes, message: str) -> None:
    with pytest.raises(ArchiveError) as raised:
        examine(data)
    assert str(raised.value) == message


def make_home(root: Path, data: bytes | None, *, simulator: bool = False) -> str:
    (root / "include/switchml").mkdir(parents=True)
    (root / "include/switchml/context.h").touch()
    (root / "include/switchml/common.h").write_text(
        "#define SWITCHML_SIMULATOR 1\n" if simulator else "#pragma once\n"
    )
    (root / "lib").mkdir()
    if data is not None:
        (root / "lib/libswitchml-client.a").write_bytes(data)
    return str(root)


def test_a_home_in_any_directory(tmp_path: Path) -> None:
    name = os.fsdecode(b"a b\xff")
    home = make_home(tmp_path / name, built("DUMMY", "abi"), simulator=True)
    found = archive.read(home)
    assert found.simulator
    assert found.about == "the simulator, which stands in for every backend"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (built("DUMMY"), ""),
        (b"", "HOME/lib/libswitchml-client.a: is empty; build the client library again"),
        (
            None,
            (
                "no HOME/lib/libswitchml-client.a; make one with switchml-patch client build, name "
                "another place with --switchml-home, or take the simulator: switchml-patch "
                "simulator install -o DIR"
            ),
        ),
    ],
)
def test_the_row_of_a_home(tmp_path: Path, data: bytes | None, problem: str) -> None:
    home = make_home(tmp_path / "home", data)
    client = find_client(resolve({"switchml_home": home}, {}, "/"))
    assert "".join(client.problems).replace(home, "HOME") == problem


def test_a_home_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    client = find_client(resolve({"switchml_home": str(tmp_path / "home")}, {}, "/"))
    assert client.archive is None
    assert [problem.partition(";")[0] for problem in client.problems] == [
        f"no {tmp_path}/home/include/switchml/context.h",
        f"{tmp_path}/home/lib/libswitchml-client.a: Not a directory",
    ]


def test_an_archive_that_cannot_be_read() -> None:
    with unprivileged.directory() as directory:
        home = make_home(directory / "home", built("DUMMY"))
        path = directory / "home/lib/libswitchml-client.a"
        path.chmod(0)
        with unprivileged.user():
            client = find_client(resolve({"switchml_home": home}, {}, "/"))
    assert client.problems == (f"{path}: Permission denied; it has to be a file that can be read",)


@pytest.mark.parametrize(
    ("content", "ok"),
    [
        (b"!<arch>\n" + member(b"mlx5_pci_probe"), True),
        (b"GROUP ( librte_eal.a librte_pmd_mlx5.a )", True),
        (b"GROUP ( librte_eal.a librte_pmd_mlx4.a )", False),
        (b"", False),
    ],
)
def test_the_driver_of_the_card_is_reported(tmp_path: Path, content: bytes, *, ok: bool) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libdpdk.a").write_bytes(content)
    options = resolve({"dpdk": True, "mlx5": True, "dpdk_home": str(tmp_path)}, {}, "/")
    row = homes.find_driver(options)
    assert row is not None
    assert (row.name, row.ok, row.required) == ("DPDK's mlx5 driver (optional)", ok, False)
    assert all("build DPDK with MLX5=1" in problem for problem in row.problems)


def test_what_a_home_links_with(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert archive.read_links(str(home)) is None
    (home / "lib/pkgconfig").mkdir(parents=True)
    (home / MODULE).write_text(
        "prefix=${pcfiledir}/../..\nwith_DPDK= /opt/my dpdk\nwith_gRPC=1.51.1 packages\n"
    )
    assert archive.read_links(str(home)) == ("DPDK (/opt/my dpdk)", "gRPC 1.51.1 (packages)")
    options = resolve({"switchml_home": str(home), "dpdk": True}, {}, "/")
    row = homes.read_links(options)
    assert row is not None
    assert row.found == "DPDK (/opt/my dpdk), gRPC 1.51.1 (packages)"
