"""A flag that is added to the table of flags, and to nothing else, is known everywhere."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from support.variables import LISTS
from support.waiting import captured

import patchgen

REPOSITORY = Path(__file__).parents[3]
TABLE = "FLAGS: tuple[Flag, ...] = (\n"
FLAG = """    Flag(
        "XYZ", "the library has the XYZ backend", backend=True, libraries={"xyz": "libxyz-dev"},
    ),
"""
ARCHIVE = b"_ZN8switchml7Context11GetInstanceEv\0_ZTVN8switchml10XyzBackendE\0"


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the package knows of the flag: a copy, with one more entry of its table."""
    root = tmp_path_factory.mktemp("flags")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(patchgen.__file__).parent, root / "patchgen", ignore=ignored)
    table = root / "patchgen" / "options.py"
    before = table.read_text()
    assert before.count(TABLE) == 1
    table.write_text(before.replace(TABLE, TABLE + FLAG))
    home, empty = root / "home", root / "empty"
    for directory in (home / "lib", empty):
        directory.mkdir(parents=True)
    header = b"%-48s%-10d`\n" % (b"context.o/", len(ARCHIVE) + len(ARCHIVE) % 2)
    content = b"!<arch>\n" + header + ARCHIVE + b"\0" * (len(ARCHIVE) % 2)
    (home / "lib" / "libswitchml-client.a").write_bytes(content)
    script = REPOSITORY / "tests" / "payload" / "made_up_flag.py"
    environ = {**os.environ, "PYTHONPATH": f"{root}:{REPOSITORY / 'tests'}"}
    done = captured([sys.executable, script, home, REPOSITORY, empty], env=environ, cwd=empty)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_options_take_it_and_its_contradictions(known: dict[str, Any]) -> None:
    assert known["flags"] == ["XYZ", "DEBUG"]
    assert known["environment"] == ["XYZ"]
    both, card = known["refusals"]
    assert "XYZ=1 and DPDK=1" in both
    assert "--dpdk (DPDK=1)" in both
    assert "--xyz (XYZ=1)" in both
    assert "with DPDK only" in card


def test_help_and_reference_have_it(known: dict[str, Any]) -> None:
    assert known["help"] == [
        "generate", "graft build", "plugin install", "client build", "run", "check"
    ]  # fmt: skip
    assert known["heading"] == 1
    assert known["reference"] == 3, "the variables, and two spellings in the options of commands"


def test_version_and_record_have_it(known: dict[str, Any]) -> None:
    assert known["version"].endswith("+switchml.xyz.debug")
    assert known["parsed"] == ["XYZ", "DEBUG"]
    assert known["record"] is True
    assert known["read"] is True
    assert known["line"].startswith("XYZ=1 DEBUG=1 ")
    assert known["data"] is True


def test_switchml_cmake_has_it(known: dict[str, Any]) -> None:
    lines = [line.strip() for line in known["cmake"].splitlines()]
    assert "set(SWITCHML_FLAGS XYZ DEBUG)" in lines
    assert "set(SWITCHML_BACKENDS XYZ DPDK RDMA)" in lines
    assert "set(SWITCHML_LIBRARIES_XYZ xyz)" in lines


def test_client_library_has_it(known: dict[str, Any]) -> None:
    assert known["archive"][0] == ["XYZ"]
    assert known["archive"][1].startswith("built with XYZ ")
    assert known["configuration"] == "xyz"
    assert "libxyz (Debian: libxyz-dev), which is not installed" in known["client"]


def test_simulator_refuses_it(known: dict[str, Any]) -> None:
    assert (
        "--xyz belongs to a client library; name the library with --switchml-home"
        in known["simulator"]
    )


def test_check_names_its_package(known: dict[str, Any]) -> None:
    assert known["check"] == ["no library xyz; install libxyz-dev (Debian)"]


def test_lists_of_people_are_found_to_lack_it(known: dict[str, Any]) -> None:
    assert known["unlisted"] == {name: ["XYZ"] for name in LISTS}
