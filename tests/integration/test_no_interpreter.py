"""A PYTHON that is none: every command says so in a line, with what to give instead."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner
from support.programs import script
from support.waiting import ENOUGH, has_ended

from patchgen import cli
from patchgen.core import torch
from patchgen.system import interpreter

HUNG = 1  # seconds
ADVICE = "; give the path of one, such as /usr/bin/python3"
SAYS = {
    "ls": "ended with exit code 2: ",
    "rubbish": "gave no answer)",
    "liar": "gave no answer)",
    "hangs": f"no answer in {HUNG} s)",
    "broken": "Exec format error)",
}
ABSENT = ("directory", "missing")


class Case(NamedTuple):
    arguments: tuple[str, ...]
    code: int = 4
    absent: int = 2
    """The exit code where there is no such program."""


CASES = {
    "demo": Case(("demo", "-o", "demo", "--torch", "PYTHON")),
    "graft": Case(("graft", "build", "--switchml-home", "/", "--torch", "PYTHON")),
    "graft install": Case(("graft", "install", "x.so", "--torch", "PYTHON")),
    "graft uninstall": Case(("graft", "uninstall", "--torch", "PYTHON")),
    "plugin": Case(("plugin", "build", "--switchml-home", "/", "--torch", "PYTHON")),
    "plugin install": Case(("plugin", "install", "--switchml-home", "/", "--torch", "PYTHON")),
    "run": Case(("run", "--torch", "PYTHON", "--", "true")),
    "status": Case(("status", "PYTHON")),
    "verify": Case(("verify", "PYTHON"), code=6),
    "check": Case(("check", "--switchml-home", "/", "--python", "PYTHON"), code=6, absent=6),
    "build": Case(
        ("build", "--switchml-home", "/", "--work", "work", "--python", "PYTHON"), code=6
    ),
}


@pytest.fixture
def python(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    texts = {
        "rubbish": "#!/bin/sh\nhead -c 100000 /dev/urandom\necho '{}'; echo 1\n",
        "liar": "#!/bin/sh\ncat\n",  # all of the program comes back
        "hangs": f"#!/bin/sh\necho $$ >> {tmp_path}/pids\nexec sleep 600\n",
        "broken": "not a program",
    }
    path = tmp_path / "python3"
    if request.param == "ls":
        return "/bin/ls"
    if request.param == "directory":
        path.mkdir()
    elif request.param != "missing":
        script(path, texts[request.param])
    return str(path)


# For status what is no program is a tree.
PAIRS = [
    (command, kind)
    for command in CASES
    for kind in (*SAYS, *ABSENT)
    if command != "status" or kind in SAYS
]


@pytest.mark.parametrize(("command", "python"), PAIRS, indirect=["python"])
def test_no_interpreter(
    command: str, python: str, request: pytest.FixtureRequest, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    kind = request.node.callspec.params["python"]
    monkeypatch.chdir(tmp_path)
    for asking in (interpreter, torch):
        monkeypatch.setattr(asking, "LIMIT", HUNG if kind == "hangs" else ENOUGH)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    case = CASES[command]
    arguments = [python if one == "PYTHON" else one for one in case.arguments]
    if command == "verify" and kind == "hangs":
        arguments += ["--timeout", str(HUNG)]
    done = CliRunner().invoke(cli.main, arguments)
    assert done.exit_code == (case.absent if kind in ABSENT else case.code), done.output
    lines = [line.strip() for line in done.output.splitlines() if python in line]
    message = lines[-1]
    assert len([line for line in lines if " interpreter" in line or "; name another" in line]) == 1
    if kind in ABSENT:
        names = ("no such interpreter; give the path of a python", "no such program; name another")
        assert any(words in message for words in names)
    else:
        assert f"{python}: is no Python interpreter ({SAYS[kind]}" in message
        assert message.endswith(ADVICE)
    assert "import json" not in done.output
    pids = tmp_path / "pids"
    assert (
        all(has_ended(pid) for pid in pids.read_text().split())
        if pids.exists()
        else kind != "hangs"
    )
    assert not os.path.exists(tmp_path / "cache" / "run")


def test_what_one_writes_without_end_is_not_kept(tmp_path: Path) -> None:
    path = script(tmp_path / "python3", "#!/bin/sh\nyes $(printf %01000d 0) | head -c 33554432\n")
    tracemalloc.start()
    try:
        with pytest.raises(interpreter.NoInterpreter, match="gave no answer"):
            interpreter.ask(str(path), os.environ)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20
