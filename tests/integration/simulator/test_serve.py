"""The aggregator as a process of its own, and workers of several sessions."""

from __future__ import annotations

import contextlib
import re
import shlex
import signal
import socket
import struct
from pathlib import Path

import numpy as np
import pytest
from support import unprivileged
from support.programs import script
from support.serving import Served, serving
from support.simulator import (
    FAILED,
    HEADER,
    JOB,
    REFUSED,
    WELCOME,
    fixed_point_sum,
    frame,
    hello,
    job,
    packets,
    received,
    started,
)
from support.trees import tool
from support.waiting import ENOUGH, until

from patchgen.system.ports import NO_ADDRESS

KEEPALIVE = "02"  # of a connection's timer, in /proc/net/tcp


def test_session_after_session(driver: Path, tmp_path: Path, served: Served) -> None:
    for number in range(2):
        with started(driver, tmp_path / f"session-{number}", 2, aggregator=served.address) as group:
            rng = np.random.default_rng(number)
            tensors = [rng.standard_normal(100_003).astype(np.float32) for _ in range(2)]
            expected = fixed_point_sum(tensors, packets(len(tensors[0])))
            assert group.reduce(tensors) == [expected.tobytes()] * 2
            whole = [tensor.view(np.int32) for tensor in tensors]
            assert group.reduce(whole) == [(whole[0] + whole[1]).tobytes()] * 2
            assert [worker.quit() for worker in group.workers] == [0, 0]
    code, counters, message = served.end()
    assert code == 0
    assert counters == {
        "sessions": 2, "broken": 0, "refused": 0, "jobs": 4, "elements": 4 * 100_003
    }  # fmt: skip
    data = 4 * 4 * 100_003
    for worker in served.workers:
        assert worker["joined"] == 2
        assert data < worker["received"] < 1.02 * data
        assert data < worker["sent"] < 1.02 * data
    assert message.splitlines()[-1] == "2 sessions, 4 sums of 400,012 elements"


def test_a_session_after_one_that_broke(driver: Path, tmp_path: Path, served: Served) -> None:
    """Whoever is left of the first knows at once, and may stay as long as it likes."""
    with started(driver, tmp_path / "0", 2, aggregator=served.address) as first:
        first[0].ask("submit float32 4000000 1")
        first[1].process.kill()
        assert first[0].ask("wait") == "FAILED"
        assert "the connection of rank 1 broke" in first[0].errors
    with started(driver, tmp_path / "1", 2, aggregator=served.address) as second:
        second[1].process.kill()  # rank 0 has no job, and does not look
        second[1].process.wait()
        with started(driver, tmp_path / "2", 2, aggregator=served.address) as third:
            third.check_sum(1000, 4)
            second[0].ask("submit int32 1000 4")
            assert second[0].ask("wait") == "FAILED"
            third.check_sum(1000, 5)
            assert [worker.quit() for worker in third.workers] == [0, 0]
    counters = served.end(signal.SIGINT)[1]
    assert (counters["sessions"], counters["broken"], counters["jobs"]) == (3, 2, 2)


def test_who_does_not_fit_is_refused(driver: Path, tmp_path: Path, served: Served) -> None:
    cases = (
        ({"num_workers": 3}, "num_workers is 3 here and 2 at the aggregator"),
        ({"packet_numel": 64}, "packet_numel is 64 here and 256 at rank 1"),
        ({"rank": 1}, "rank 1 is taken by another process"),
    )
    for number, (values, reason) in enumerate(cases):
        with job(driver, tmp_path / f"session-{number}", 2, aggregator=served.address) as group:
            config = group[0].directory / "switchml.cfg"
            text = config.read_text()
            for key, value in values.items():
                text = re.sub(rf"(?m)^{key} = .*$", f"{key} = {value}", text)
            config.write_text(text)
            assert group[1].ask("start") == "true"
            assert group[0].ask("start") == "false"
            assert reason in group[0].errors
    code, counters, message = served.end(signal.SIGINT)
    assert (code, counters["sessions"], counters["refused"]) == (0, 3, 3)
    assert "refused rank 0: num_workers is 3 here and 2 at the aggregator" in message


def test_its_end_fails_the_workers(driver: Path, tmp_path: Path, served: Served) -> None:
    with started(driver, tmp_path, 2, aggregator=served.address) as group:
        group.check_sum(10, 1)
        group[0].ask("submit int32 10 1")
        served.end()
        assert group[0].ask("wait") == "FAILED"
        assert "the aggregator has stopped" in group[0].errors


def test_a_name_with_both_families(driver: Path, cache: Path, tmp_path: Path) -> None:
    """It listens at both addresses, and a worker finds the one at which somebody listens."""
    names = tmp_path / "hosts"
    names.write_text("::1 both\n127.0.0.1 both\n127.0.0.1 both\n")
    renamed = [*unprivileged.unshare("--mount"), "sh", "-c"]
    renamed += [f'mount --bind {names} /etc/hosts && exec "$@"', "sh"]
    with serving(cache, tmp_path / "both", 2, *renamed, host="both") as served:
        port = int(served.address.rpartition(":")[2])
        for address in ("127.0.0.1", "::1"):
            socket.create_connection((address, port), timeout=ENOUGH).close()
    text = f"#!/bin/sh\nexec {shlex.join([*renamed, str(driver)])}\n"
    named = script(tmp_path / "named", text)
    with serving(cache, tmp_path / "one", 2) as served:
        address = f"both:{served.address.rpartition(':')[2]}"
        with started(named, tmp_path, 2, aggregator=address):
            pass


def answered(connection: socket.socket) -> tuple[int, str]:
    """The kind of the next frame, and its text."""
    kind, size, _ = HEADER.unpack(received(connection, HEADER.size))
    return kind, received(connection, size).rstrip(b"\0").decode()


def connected(stack: contextlib.ExitStack, served: Served) -> socket.socket:
    host, port = served.address.split(":")
    connection = socket.create_connection((host, int(port)), timeout=ENOUGH)
    return stack.enter_context(connection)


def test_a_hello_with_impossible_values_is_refused(
    driver: Path, tmp_path: Path, served: Served
) -> None:
    """Whoever is the first of a session, the values are those that a switchml.cfg may have."""
    with contextlib.ExitStack() as stack:
        for given, reason in (
            (hello(packet_numel=0), "packet_numel 0 is not within 1 and 4194304"),
            (hello(packet_numel=2**30), "packet_numel 1073741824 is not within 1 and 4194304"),
            (hello(packet_numel=2**64 - 1), f"packet_numel {2**64 - 1} is not within 1"),
            (hello(threads=0), "num_worker_threads is 0"),
            (hello(outstanding=3), "max_outstanding_packets 3 is less than num_worker_threads 4"),
        ):
            stranger = connected(stack, served)
            stranger.sendall(given)
            kind, message = answered(stranger)
            assert (kind, message[: len(reason)]) == (REFUSED, reason)
            assert not stranger.recv(1)
        with started(driver, tmp_path, 2, aggregator=served.address) as group:
            group.check_sum(10, 1)
    counters, message = served.end()[1:]
    assert (counters["sessions"], counters["refused"]) == (1, 5)
    assert "refused rank 0: packet_numel 0 is not within 1 and 4194304" in message


def test_workers_that_have_not_come_need_no_descriptor(cache: Path, tmp_path: Path) -> None:
    """Also where the system polls no more of them than a process may have."""
    limited = ("prlimit", "--nofile=100:100")
    with contextlib.ExitStack() as stack:
        served = stack.enter_context(serving(cache, tmp_path / "counters", 200, *limited))
        for rank in range(3):
            worker = connected(stack, served)
            worker.sendall(hello(rank, workers=200))
            assert answered(worker) == (WELCOME, "")


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ((2**64 - 1, 1, 0), "more elements than memory can hold"),
        ((10, 7, 0), "unknown data type"),
        ((10, 1, 3), "unknown operation"),
    ],
)
def test_an_impossible_job_ends_its_own_session_only(
    driver: Path, tmp_path: Path, served: Served, values: tuple[int, int, int], reason: str
) -> None:
    with contextlib.ExitStack() as stack:
        members = [connected(stack, served) for _ in range(2)]
        for rank, member in enumerate(members):
            member.sendall(hello(rank) + frame(JOB, struct.pack("=QII", *values)))
            assert answered(member) == (WELCOME, "")
        for member in members:
            assert answered(member) == (FAILED, f"job 0: {reason}")
        with started(driver, tmp_path, 2, aggregator=served.address) as group:
            group.check_sum(10, 1)
    assert served.end()[1]["sessions"] == 2


def test_a_machine_that_vanishes_is_looked_for(served: Served) -> None:
    host, port = served.address.split(":")
    with socket.create_connection((host, int(port))) as worker:
        mine = worker.getsockname()[1]

        def timers() -> list[str]:
            lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
            ends = (f":{int(port):04X}", f":{mine:04X}")
            return [one[5][:2] for one in lines if (one[1][-5:], one[2][-5:]) == ends]

        until(lambda: timers() == [KEEPALIVE], served.process)


def test_what_is_refused(cache: Path, tmp_path: Path) -> None:
    def output(*words: str, code: int) -> str:
        options = ["--cache", str(cache), "--workers", "2", *words]
        return tool("simulator", "serve", *options, code=code).stderr

    assert "--workers" in output("--workers", "0", code=2)
    message = "foo: not HOST:PORT with a port from 0 to 65535"
    assert message in " ".join(output("--listen", "foo", code=2).split())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert f"cannot listen on {address}" in output("--listen", address, code=4)
    target = tmp_path / "file" / "counters.json"
    target.parent.touch()
    free = ["--listen", "127.0.0.1:0"]
    assert str(target.parent) in output(*free, "--json", str(target), code=5)


def test_install_writes_the_address(tmp_path: Path) -> None:
    def output(*words: str) -> str:
        return tool("simulator", "install", "-o", str(tmp_path / "home"), *words, code=2).stderr

    message = f"the address of the aggregator: nowhere: {NO_ADDRESS}"
    assert message in output("--aggregator", "nowhere")
    assert not (tmp_path / "home").exists()
