"""A wheel that is unpacked: every file compared with its hash, none outside, and who imports it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from support.wheelhouse import Entry, listing, zipped

from patchgen.core.verify import expected, wheels
from patchgen.errors import OptionsError, ToolError
from patchgen.system.wheel import CHANGED

NAME = "torch-1.7.1+switchml-cp39-cp39-linux_x86_64.whl"
RECORD = "torch-1.7.1+switchml.dist-info/RECORD"
MODULE = Entry("torch/__init__.py", b"x = 1\n")
TOOL = Entry("torch/bin/tool", b"#!/bin/sh\n", mode=0o100755)
HERE = f"cp{sys.version_info[0]}{sys.version_info[1]}"
MACHINE = os.uname().machine


def write(path: Path, entries: list[Entry], recorded: list[Entry] | None = None) -> str:
    record = Entry(RECORD, listing(entries if recorded is None else recorded, RECORD))
    return str(zipped(path, [*entries, record]))


def test_what_is_recorded_is_unpacked(tmp_path: Path) -> None:
    check = wheels.unpack(write(tmp_path / NAME, [MODULE, TOOL]), str(tmp_path / "out"))
    assert check.ok
    assert check.found == "2 files, as recorded"
    assert (tmp_path / "out/torch/__init__.py").read_bytes() == b"x = 1\n"
    assert os.access(tmp_path / "out/torch/bin/tool", os.X_OK)


@pytest.mark.parametrize(
    ("entries", "recorded", "message"),
    [
        ([MODULE, TOOL], [Entry(MODULE.name, b"y = 1\n"), TOOL], f"{MODULE.name}: {CHANGED}"),
        ([Entry("../out.py", b"1")], None, "../out.py: outside of the wheel"),
    ],
)
def test_what_is_not_as_recorded_is_named(
    tmp_path: Path, entries: list[Entry], recorded: list[Entry] | None, message: str
) -> None:
    (tmp_path / "a").mkdir()
    check = wheels.unpack(write(tmp_path / NAME, entries, recorded), str(tmp_path / "a" / "out"))
    assert message in check.problems[0]
    assert "damaged" in check.problems[0]
    assert {path.name for path in tmp_path.iterdir()} == {NAME, "a"}
    assert {path.name for path in (tmp_path / "a").iterdir()} <= {"out"}


def interpreter(tag: str, platform: str, given: str | None = None) -> str:
    name = f"torch-1.7.1+switchml-{tag}-{tag}-{platform}.whl"
    return wheels.find_interpreter(expected.read_wheel_name(name), name, given, os.environ)


def test_the_interpreter_is_the_one_that_the_tag_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "python3.99"
    program.write_text("")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert interpreter("cp399", f"linux_{MACHINE}") == "python3.99"
    assert interpreter(HERE, f"manylinux_2_17_{MACHINE}") == sys.executable
    assert interpreter(HERE, f"linux_{MACHINE}", sys.executable) == sys.executable
    assert interpreter("py3", "any", sys.executable) == sys.executable


@pytest.mark.parametrize(
    ("tag", "platform", "given", "message"),
    [
        ("cp399", f"linux_{MACHINE}", None, r"is for python3.99, .* give --python"),
        ("cp399", f"linux_{MACHINE}", sys.executable, r"the wheel is for cp399; give an interpret"),
        (HERE, "win_amd64", None, "is for win_amd64, this is Linux"),
        (HERE, "linux_vax", sys.executable, "is for linux_vax, this is Linux"),
    ],
)
def test_a_wheel_for_others_is_refused(
    tag: str, platform: str, given: str | None, message: str
) -> None:
    with pytest.raises(OptionsError, match=message):
        interpreter(tag, platform, given)


def test_what_is_no_interpreter_is_named() -> None:
    with pytest.raises(ToolError, match="false"):
        interpreter(HERE, f"linux_{MACHINE}", "false")
