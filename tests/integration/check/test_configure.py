"""Answers of the very switchml.cmake before there is a compiler: flags, homes and libraries."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.programs import script

from patchgen.core.library import homes
from patchgen.core.patch import patches, pins
from patchgen.core.wheel.check import advice, configure
from patchgen.core.wheel.check.configure import Configuration
from patchgen.core.wheel.check.facts import Facts, find_client
from patchgen.core.wheel.check.locked import LockedEnvironment
from patchgen.core.wheel.request import BuildRequest
from patchgen.options import resolve

PIN = pins.find("v1.7.1", pins.shipped())
ALWAYS = ("glog", "boost_program_options")
MARKS = {"DPDK": "11DpdkBackend", "RDMA": "11RdmaBackend", "DUMMY": "12DummyBackend"}


def home(root: Path, *backends: str, simulator: bool = False) -> Path:
    """An archive of the marks that a client library has, in one member."""
    (root / "include/switchml").mkdir(parents=True)
    (root / "include/switchml/context.h").touch()
    (root / "include/switchml/common.h").write_text(
        "#define SWITCHML_SIMULATOR 1\n" if simulator else ""
    )
    (root / "lib").mkdir()
    marks = ["_ZN8switchml7Context11GetInstanceEv", "_ZN8switchml6Config12LoadFromFileENSt7__cxx11"]
    text = "\0".join([*marks, *(f"_ZN8switchml{MARKS[name]}3RunEv" for name in backends), "\n"])
    data = text.encode().ljust(len(text) + len(text) % 2, b"\n")
    member = b"a.o/".ljust(48) + str(len(data)).encode().ljust(10) + b"`\n" + data
    (root / homes.ARCHIVE).write_bytes(b"!<arch>\n" + member)
    return root


def configured(tmp_path: Path, **given: Any) -> Configuration:
    """Answers of a script, since the environment is not made."""
    options, environ, cwd = resolve(given, {}, str(tmp_path)), dict(os.environ), str(tmp_path)
    request = BuildRequest(patches.make(options, PIN), cwd, "", None, "conda-lock.yml", "", environ)
    found = Facts(request, find_client(options), LockedEnvironment()).configured
    assert isinstance(found, Configuration)
    return found


@pytest.mark.parametrize(
    ("flags", "libraries"),
    [
        ({}, ALWAYS),
        ({"dpdk": True}, ("dpdk", *ALWAYS, "numa")),
        ({"dpdk": True, "mlx5": True}, ("dpdk", *ALWAYS, "numa", "ibverbs", "mlx5", "mnl")),
        ({"dpdk": True, "mlx4": True}, ("dpdk", *ALWAYS, "numa", "ibverbs", "mlx4", "mnl")),
        ({"rdma": True}, (*ALWAYS, "ibverbs", "hugetlbfs")),
    ],
)
def test_what_is_linked(tmp_path: Path, flags: dict[str, bool], libraries: tuple[str, ...]) -> None:
    backends = [name.upper() for name in ("dpdk", "rdma") if name in flags] or ["DUMMY"]
    real = home(tmp_path / "real", *backends)
    heard = configured(tmp_path, **flags, switchml_home=str(real))
    assert heard.libraries == libraries
    assert not heard.archive
    for name in libraries:
        if name != "dpdk":  # of a home
            assert "Debian" in advice.install(name, conda=False)
    (tmp_path / "again").mkdir()
    simulated = home(tmp_path / "simulated", "DUMMY", simulator=True)
    heard = configured(tmp_path / "again", **flags, switchml_home=str(simulated))
    assert (heard.libraries, heard.archive, heard.incomplete) == (ALWAYS, (), ())


def test_pkg_config_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """About Debian's gRPC it thinks for a second."""
    real, wanted = shutil.which("pkg-config"), tmp_path / "asked"
    text = f'#!/bin/sh\necho "$@" >>{wanted}\nexec {real} "$@"\n'
    program = script(tmp_path / "bin/pkg-config", text)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    heard = configured(tmp_path, dpdk=True)
    assert heard.modules == ()
    questions = [line for line in wanted.read_text().splitlines() if "grpc++" in line]
    assert len(questions) == 1


def test_without_pkg_config() -> None:
    """This machine has a pkg-config that cannot be hidden."""
    answers = [
        ("PKG_CONFIG", "", "no pkg-config on PATH"),
        ("MODULES", "no such program", "pkg-config refuses gRPC"),
        ("LIBRARIES", "/x/libswitchml-client.a;pthread;glog"),
        ("GRPC", ""),
    ]
    text = "".join("\x1f".join(words) + "\x1e" for words in answers)
    heard = configure.parse(text)
    assert heard is not None
    assert heard.modules == (
        "no pkg-config on PATH; install pkg-config (Debian) or pkgconf-pkg-config (RHEL)",
    )
    assert configure.parse(text.partition("LIBRARIES")[0]) is None
