"""The command: a program that is compiled once, its counters, and how it ends."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.switch_clients import CONNECTED, MemifClient
from support.trees import tool
from support.unprivileged import directory
from support.waiting import ENOUGH, until

from patchgen.system import ports

PROTOBUF = "Name: protobuf\nDescription: here\nVersion: 3\nLibs: -lprotobuf\n"


@contextlib.contextmanager
def running(cache: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A command that is ready, in a session of its own."""
    command = [sys.executable, "-m", "patchgen", "switch", "--cache", str(cache)]
    with subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0", *words], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("listening on 127.0.0.1:"), line
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_counts_until_a_signal(switch_cache: Path, tmp_path: Path, number: int) -> None:
    target = tmp_path / "counters.json"
    with directory() as short:  # of sockets
        ports = [f"memif:{short}/{rank}" for rank in range(2)]
        words = [word for port in ports for word in ("--port", port)]
        with running(switch_cache, *words, "--seed", "5", "--json", str(target)) as process:
            with contextlib.closing(MemifClient(f"{short}/1")) as client:
                assert client.connect() == CONNECTED
                client.send(bytes(60))
                until(lambda: client.idle(0), process)
            process.send_signal(number)
            message, errors = process.communicate(timeout=ENOUGH)
        assert [*short.iterdir()] == []
    assert (process.returncode, message) == (0, "")
    counters = json.loads(target.read_text())
    assert [(port["port"], port["received"]) for port in counters["ports"]] == [*zip(ports, (0, 1))]
    assert (counters["foreign"], counters["seed"]) == (1, 5)
    assert f"{ports[1]}  " in errors
    assert "frames of workers that have not joined: 1" in errors


def test_what_is_refused(switch_cache: Path, tmp_path: Path) -> None:
    def output(*words: str, code: int) -> str:
        return tool("switch", "--cache", str(switch_cache), *words, code=code).stderr

    port = ["--port", f"memif:{tmp_path}/port"]
    assert "--port" in output(code=2)
    assert "--loss" in output(*port, "--loss", "2", code=2)
    free = ["--listen", "127.0.0.1:0"]
    gone = "packet:no-such-port"
    assert "no-such-port: No such device" in output(*free, "--port", gone, code=4)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert address in output("--listen", address, *port, code=4)
    target = tmp_path / "file" / "counters.json"
    target.parent.touch()
    assert str(target.parent) in output(*free, *port, "--json", str(target), code=5)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--listen", "foo", f"foo: {ports.NO_ADDRESS}"),
        ("--port", "tap0", "tap0: not memif:PATH or packet:INTERFACE"),
        ("--port", "tap:0", "tap:0: not memif:PATH or packet:INTERFACE"),
        ("--port", "memif:", "memif:: not memif:PATH or packet:INTERFACE"),
        ("--port", f"memif:{'/a' * 60}", "the path of a socket has at most 107 bytes"),
    ],
)
def test_a_wrong_address_is_a_wrong_usage(
    tmp_path: Path, option: str, value: str, message: str
) -> None:
    """Which is told before anything is compiled."""
    words = ["--cache", str(tmp_path / "cache"), "--port", "memif:/tmp/port", option, value]
    assert message in " ".join(tool("switch", *words, code=2).stderr.split())
    assert not (tmp_path / "cache").exists()


def test_the_end_without_counters_is_an_error(switch_cache: Path, tmp_path: Path) -> None:
    target = tmp_path / "place" / "counters.json"
    target.parent.mkdir()
    with directory() as short:
        words = ["--port", f"memif:{short}/0", "--json", str(target)]
        with running(switch_cache, *words) as process:
            target.parent.rmdir()
            process.send_signal(signal.SIGTERM)
            output = process.communicate(timeout=ENOUGH)[1]
    assert process.returncode == 4
    assert f"{target}: cannot be written" in output
    assert output.splitlines()[-1] == (
        "error: the switch has ended without its counters; why stands above"
    )


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PKG_CONFIG_LIBDIR", str(tmp_path))
    monkeypatch.delenv("PKG_CONFIG_PATH", raising=False)
    for missing in (
        "protobuf (Debian: libprotobuf-dev; conda: libprotobuf)",
        "gRPC (Debian: libgrpc++-dev; conda: grpc-cpp)",
    ):
        output = tool(
            "switch", "--cache", str(tmp_path), "--port", "memif:/tmp/port", code=4
        ).stderr
        message = f"error: the software switch needs {missing}, which is not installed"
        assert output.splitlines()[-1] == message
        (tmp_path / "protobuf.pc").write_text(PROTOBUF)
