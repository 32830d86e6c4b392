"""The project that compiles the client library, with a library of a few lines."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from support import client_source, programs
from support import cmake as fakes
from support.shared import once
from support.waiting import captured

from patchgen.core.library import homes
from patchgen.errors import ToolError, TreeError
from patchgen.extras.client import building
from patchgen.system.native import cmake

SOURCES = {path: text.encode() for path, text in client_source.FILES.items()}
COMMIT = "0123456789abcdef0123456789abcdef01234567"
PROGRAM = """\
#include <switchml/context.h>
#include <cstdio>
int main() { std::puts(switchml::Context::GetInstance().About()); }
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built with the flags of distributions whose packages are linked as a whole."""

    def make(directory: Path) -> None:
        wish = building.ClientRequest((), client_source.FIXES, commit=COMMIT)
        with pytest.MonkeyPatch.context() as environ:
            environ.setenv("CXXFLAGS", "-flto=auto")
            building.install(wish, SOURCES, str(directory))

    return once(tmp_path_factory, "client-home", make)


def test_what_is_installed(home: Path) -> None:
    installed = {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()}
    assert installed == {
        "include/switchml/backends/dummy/dummy_backend.h",
        "include/switchml/common.h",
        "include/switchml/context.h",
        "include/switchml/prepostprocessors/ppp.h",
        "include/switchml/schedulers/fifo.h",
        "lib/libswitchml-client.a",
        "lib/pkgconfig/switchml-client.pc",
        "switchml.cfg",
    }


def test_a_program_links_with_it(home: Path, tmp_path: Path) -> None:
    """By pkg-config alone, and wherever the home is moved to."""
    moved = tmp_path / "a home"
    moved.symlink_to(home)
    (tmp_path / "program.cpp").write_text(PROGRAM)
    script = (
        'eval "g++ -std=c++17 program.cpp -o program '
        '$(pkg-config --cflags --libs switchml-client)" && ./program'
    )
    done = captured(
        ["sh", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PKG_CONFIG_PATH": str((moved / homes.MODULE).parent)},
    )
    assert (done.returncode, done.stdout) == (0, "fixed\n"), done.stderr


def test_the_status_of_a_home(home: Path) -> None:
    command = [sys.executable, "-m", "patchgen", "client", "status", str(home)]
    message = captured(command)
    assert message.returncode == 3  # it has none of the fixes that there are
    lines = message.stdout.splitlines()
    assert lines[:3] == [
        f"{home}: built with DUMMY from 0123456 with 1 fixes",
        "flags: DUMMY, TIMEOUTS",
        "fixes: honest",
    ]
    assert any(line.startswith("lacks duplicates: A second answer") for line in lines)
    message = captured([*command, "--json"])
    data = json.loads(message.stdout)
    assert (message.returncode, data["commit"], data["fixes"]) == (3, COMMIT, ["honest"])
    assert "stale-timers" in data["lacking"]


def test_a_source_that_does_not_compile_installs_nothing(tmp_path: Path) -> None:
    broken = (client_source.fix("broken", "nonsense"),)
    with pytest.raises(ToolError, match="return code"):
        building.install(building.ClientRequest((), broken), SOURCES, str(tmp_path / "home"))
    other = {**SOURCES, client_source.CONTEXT: b"other\n"}
    with pytest.raises(TreeError, match=r"context\.cc: not the file of commit"):
        building.install(building.ClientRequest((), broken), other, str(tmp_path / "home"))
    assert not (tmp_path / "home").exists()


def test_homes_of_ones_own(tmp_path: Path) -> None:
    """A driver of DPDK registers itself, which only a whole archive keeps; no other is whole."""
    dpdk, grpc = fakes.dpdk(tmp_path / "dpdk"), fakes.grpc(tmp_path / "grpc", "grpc++", "protobuf")
    (dpdk / "include" / "rte_config.h").touch()
    sources = {path: b"" if text[:6] == b"#error" else text for path, text in SOURCES.items()}
    wish = building.ClientRequest(
        ("DPDK",), client_source.FIXES, dpdk_home=str(dpdk), grpc_home=str(grpc)
    )
    home = tmp_path / "home"
    building.install(wish, sources, str(home))
    (tmp_path / "program.cpp").write_text(
        '#include <cstdio>\nextern "C" int fake_drivers();\n'
        'int main() { std::printf("%d", fake_drivers()); }\n'
    )
    environ = {**os.environ, "PKG_CONFIG_PATH": str(home / "lib" / "pkgconfig")}
    command = "g++ program.cpp -o program $(pkg-config --libs switchml-client) && ./program"
    done = captured(["sh", "-c", command], cwd=tmp_path, env=environ)
    assert (done.returncode, done.stdout) == (0, "1"), done.stderr


def test_pkg_config_is_asked_once(tmp_path: Path) -> None:
    """Of gRPC each answer takes it a second and more."""
    home, wanted = tmp_path / "home", tmp_path / "asked"
    config = home / "lib/pkgconfig"
    config.mkdir(parents=True)
    about = "Description: one\nVersion: 1\n"
    (config / "one.pc").write_text(
        f"Name: one\n{about}Requires: two\n"
        f"Cflags: -I{home}/include -DONE\nLibs: -L{home}/lib -lone\n"
    )
    (config / "two.pc").write_text(
        f"Name: two\n{about}Libs: -L/usr/lib -Wl,--push-state -ltwo -Wl,--pop-state\n"
    )
    text = f'#!/bin/sh\necho x >>{wanted}\nexec {shutil.which("pkg-config")} "$@"\n'
    program = programs.script(tmp_path / "pkg-config", text)
    script = tmp_path / "script.cmake"
    names = ("FOUND", "CFLAGS", "LDFLAGS", "INCLUDE_DIRS", "LIBRARY_DIRS", "RUN_PATH")
    script.write_text(
        f"include({os.path.dirname(cmake.__file__)}/packages.cmake)\n"
        f"set(PKG_CONFIG_EXECUTABLE {program})\n"
        "set(CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES /usr/lib)\n"
        "flags_of(HERE one)\nflags_of(GONE nowhere)\n"
        + "".join(f'message(STATUS "${{HERE_{name}}}")\n' for name in names)
        + 'message(STATUS "${GONE_FOUND}${GONE_LDFLAGS}")\n'
    )
    done = captured(
        ["cmake", "-P", script],
        env={**os.environ, "CMAKE_PREFIX_PATH": f"{tmp_path}/none:{home}", "PKG_CONFIG_PATH": ""},
    )
    assert done.stdout.splitlines() == [
        "-- TRUE",
        f"-- -I{home}/include;-DONE",
        f"-- -L{home}/lib;-lone;-L/usr/lib;-Wl,--push-state;-ltwo;-Wl,--pop-state",
        f"-- {home}/include",
        f"-- {home}/lib;/usr/lib",
        f"-- {home}/lib",
        "-- FALSE",
    ], done.stderr
    assert len(wanted.read_text().split()) == 2
