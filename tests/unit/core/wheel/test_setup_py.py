"""The log of a build: all attempts, by line."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.wheelhouse import INPUTS, make_request

from patchgen.core.wheel import diagnosis, sandbox, setup_py, workspace
from patchgen.core.wheel.payload import enclosure
from patchgen.core.wheel.request import BuildRequest
from patchgen.core.wheel.values import WheelInputs
from patchgen.errors import ToolError

Attempt = Callable[[str], str]


def make_setup_inputs(request: BuildRequest, seen: sandbox.Sandbox) -> WheelInputs:
    """Inputs as far as a run of setup.py needs them."""
    found: Any = SimpleNamespace(epoch=0)
    env: Any = SimpleNamespace(python="/usr/bin/python3", environ={})
    return replace(INPUTS, request=request, sandbox=seen, source=found, env=env)


@pytest.fixture
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Attempt:
    """Runs a setup.py of a text; what the log holds after it."""
    monkeypatch.setattr(enclosure, "show", lambda _: None)
    source, logs = tmp_path / "source", tmp_path / "logs"
    source.mkdir()
    logs.mkdir()
    request: Any = SimpleNamespace(
        source=str(source), logs=str(logs), workers=1, version="1", remote_cache=None
    )
    inputs = make_setup_inputs(request, replace(sandbox.find(str(tmp_path)), inside=str(tmp_path)))
    place: Any = SimpleNamespace(request=request, guard=None, sandbox=inputs.sandbox)

    def run(program: str) -> str:
        (source / "setup.py").write_text(program)
        setup_py.run_setup(place, inputs, ["build"])
        return (logs / "build.log").read_text()

    return run


def test_the_line_of_an_error_is_that_of_the_log(attempt: Attempt, tmp_path: Path) -> None:
    attempt("print('well')")
    with pytest.raises(ToolError) as caught:
        attempt(r"raise SystemExit('first\x0cof a page\x0c\rline\nerror: no such thing')")
    log = tmp_path / "logs" / "build.log"
    lines = log.read_bytes().decode().split("\n")
    assert f"(line {lines.index('error: no such thing') + 1} of {log})" in str(caught.value)


def test_all_attempts_are_kept_each_on_lines_of_its_own(attempt: Attempt, tmp_path: Path) -> None:
    attempt("print('first')")
    log = tmp_path / "logs" / "build.log"
    log.write_text(log.read_text() + "a line that a kill cut sh")
    lines = attempt("print('second')").splitlines()
    assert [line for line in lines if not line.startswith("==> compile, ")] == [
        "first", "a line that a kill cut sh", "second"
    ]  # fmt: skip
    assert len([line for line in lines if line.startswith("==> compile, ")]) == 2


def test_a_line_is_in_the_log_before_the_next_is_read(attempt: Attempt, tmp_path: Path) -> None:
    log = tmp_path / "logs" / "build.log"
    program = (
        "import time\n"
        "print('written', flush=True)\n"
        f"while 'written\\n' not in open({str(log)!r}).read(): time.sleep(0.01)\n"
    )
    assert attempt(program).endswith("written\n")


def test_the_supervisor_of_the_compiler_holds_the_lock_of_the_build(tmp_path: Path) -> None:
    """So the next build waits for a compiler that outlives this one."""
    with workspace.start(make_request(tmp_path)) as started:
        request = started.request
        started.__dict__["sandbox"] = sandbox.Sandbox(request.work, request.work, "no namespaces")
        os.mkdir(request.source)
        held = f"/proc/{{os.getppid()}}/fd/{started.guard}/held"  # of the supervisor
        program = f"import os\nopen(f'{held}', 'w')\n"
        Path(request.source, "setup.py").write_text(program)
        inputs = make_setup_inputs(request, started.sandbox)
        setup_py.run_setup(started, inputs, ["build"])
    assert Path(request.logs, "held").exists()


def test_a_server_of_this_machine_is_not_reached(attempt: Attempt) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)  # noqa: FBT003  # has no keyword
        with pytest.raises(ToolError, match="Connection refused"):
            attempt(f"import socket; socket.create_connection({server.getsockname()})")
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize(
    "line",
    [
        "fatal: unable to access 'https://example.org/asset/': Could not resolve host: example.org",
        "ssh: Could not resolve hostname a.example: Temporary failure in name resolution",
        "wget: unable to resolve host address \u2018a.example\u2019",
        "curl: (7) Failed to connect to 10.1.2.3 port 80 after 0 ms: Couldn't connect to server",
        '  status: [6;"Couldn\'t resolve host name"]',
        "socket.gaierror: [Errno -3] Temporary failure in name resolution",
    ],
)
def test_what_programs_say_without_a_network(line: str) -> None:
    output = ["[1/9] Generating asset", "error: no asset", line, "See https://cmake.org"]
    found = diagnosis.Diagnosis("no asset", 2, None)
    assert diagnosis.find_network_call(output, found) == line.strip()


def test_an_error_of_another_kind_is_no_call_of_the_network() -> None:
    tolerated = ["curl: (6) Could not resolve host: a.example", *["well"] * 100, "error: no such"]
    for output in (["error: no such thing", "see https://cmake.org"], tolerated):
        found = diagnosis.diagnose(output)
        assert found is not None
        assert not diagnosis.find_network_call(output, found)
