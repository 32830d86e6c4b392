"""`switchml-patch run --nnodes`: how hosts meet, and how the job ends on all of them.

The hosts are commands on this machine, and the torch is of a few lines: tests/integration/cluster
trains on hosts with a network between them.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from support import command, quick_torch, run_hosts
from support.waiting import ENOUGH, has_ended, until

from patchgen.system.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.integration

# FAIL: the rank that fails; the others wait to be ended.
SCRIPT = """
import json, os, sys, time
import torch.distributed as dist
dist.init_process_group("gloo")
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
print(json.dumps([os.environ[name] for name in names]), flush=True)
open(f"{os.getpid()}.pid", "w").close()
if os.environ.get("FAIL") == os.environ["RANK"]:
    sys.exit(5)
if "FAIL" in os.environ or "WAIT" in os.environ:
    time.sleep(600)
"""


@dataclass(frozen=True)
class Job:
    """Commands of hosts that meet on the loopback."""

    directory: Path
    endpoint: str
    commands: list[run_hosts.Command]

    def start(
        self, *options: str, nodes: int = 2, site: Path | None = None, **env: str
    ) -> run_hosts.Command:
        """Starts the command of one more host."""
        kept = {name: text for name, text in os.environ.items() if not name.startswith("SLURM_")}
        place = ["--nnodes", str(nodes), "--rdzv-endpoint", self.endpoint]
        place += ["--rdzv-conf", f"join_timeout={int(ENOUGH)}"]
        (self.directory / "script.py").write_text(SCRIPT)
        started = run_hosts.begin(
            self.directory / f"host-{len(self.commands)}",
            [*place, "--way", "stock", *options],
            [sys.executable, self.directory / "script.py"],
            {**kept, "PYTHONPATH": str(site or self.directory / "quick torch"), **env},
        )
        self.commands.append(started)
        return started

    @property
    def ranks(self) -> list[str]:
        """Processes of all ranks that were there."""
        return [path.stem for path in self.directory.glob("host-*/*.pid")]

    def check_ended(self) -> None:
        """Checks that nothing is left of the ranks."""
        assert all(has_ended(pid) for pid in self.ranks)


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Job]:
    for name in [*os.environ]:
        if name.startswith(("SWITCHML_", "GLOO_")) and not name.startswith("SWITCHML_TEST_"):
            monkeypatch.delenv(name)
    assert quick_torch.make(tmp_path) == tmp_path / "quick torch"
    made = Job(tmp_path, f"127.0.0.1:{free_port()}", [])
    yield made
    for started in made.commands:
        started.process.kill()
        started.process.wait()


@pytest.mark.parametrize("ranks", [("0", "1"), (None, None)], ids=["numbered", "not numbered"])
def test_ranks_are_numbered_over_all_hosts(job: Job, ranks: tuple[str | None, str | None]) -> None:
    hosts = [
        job.start("--nproc-per-node", count, *(["--node-rank", rank] if rank else []))
        for rank, count in zip(ranks, ("2", "3"))
    ]
    assert [host.code for host in hosts] == [0, 0], [host.err for host in hosts]
    first = min(hosts, key=lambda host: int(host.out[1]))
    assert not ranks[0] or first is hosts[0]
    counts = [2, 3] if first is hosts[0] else [3, 2]
    expected = [
        f'[{rank}] ["{rank}", "{local}", "5", "{count}"]'
        for node, count in enumerate(counts)
        for local, rank in enumerate(range(sum(counts[:node]), sum(counts[: node + 1])))
    ]
    assert sorted((hosts[0].out + hosts[1].out).splitlines()) == expected
    for host in hosts:
        told = host.report
        name = socket.gethostname()
        places = [f"{name} (0)"] * counts[0] + [f"{name} (1)"] * counts[1]
        assert [rank["rank"] for rank in told["ranks"]] == [*range(5)]
        assert [rank["host"] for rank in told["ranks"]] == places
        assert ("torch 1.2.3: Gloo alone" in host.err) == (host is first)


@pytest.mark.parametrize("fails", ["0", "3"])
def test_the_code_of_a_failed_rank_is_that_of_all_hosts(job: Job, fails: str) -> None:
    hosts = [
        job.start("--node-rank", rank, "--nproc-per-node=2", FAIL=fails) for rank in ("0", "1")
    ]
    assert [host.code for host in hosts] == [5, 5], [host.err for host in hosts]
    for host in hosts:
        node = int(fails) // 2
        assert (
            f"rank {fails} on {socket.gethostname()} ({node}) failed with exit code 5" in host.err
        )
        assert list(host.report["failed"].items()) == [(fails, 5)]
    job.check_ended()


def test_a_host_that_never_comes(job: Job) -> None:
    for rank, told in [
        ("0", "1 of 2 hosts (--node-rank 1) did not come within 1 s; there: "),
        ("1", "no answer of the first host within 1 s: Connection refused"),
    ]:
        host = job.start("--node-rank", rank, "--rdzv-conf", "join_timeout=1")
        assert host.code == 4
        assert told in host.err
        assert "Traceback" not in host.err
    assert not job.ranks


@pytest.mark.parametrize("ended", [0, 1], ids=["the first", "the second"])
@pytest.mark.parametrize(
    ("number", "code", "why"),
    [
        (signal.SIGKILL, 4, "is gone: its command was killed, or cannot be reached"),
        (signal.SIGTERM, 143, "was told to end, by SIGTERM"),
        (signal.SIGINT, 130, "was interrupted"),
    ],
    ids=lambda value: value.name if isinstance(value, signal.Signals) else None,
)
def test_no_process_is_left_where_a_host_ends(
    job: Job, ended: int, number: signal.Signals, code: int, why: str
) -> None:
    hosts = [job.start("--node-rank", rank, WAIT="1") for rank in ("0", "1")]
    for host in hosts:
        until(lambda: len(job.ranks) == 2, host.process)
    hosts[ended].process.send_signal(number)
    codes = [host.code for host in hosts]
    assert codes[ended] == (130 if number == signal.SIGINT else -number)
    assert codes[1 - ended] == code
    name = f"{socket.gethostname()} ({ended})"
    assert hosts[1 - ended].last == f"error: host {name} {why}"
    job.check_ended()


def test_hosts_with_another_torch_are_named_before_anything_is_started(job: Job) -> None:
    other = quick_torch.make(job.directory / "other", "1.2.4")
    hosts = [job.start("--node-rank=0"), job.start("--node-rank=1", site=other)]
    assert [host.code for host in hosts] == [6, 6]
    name = socket.gethostname()
    for host in hosts:
        assert f"torch: 1.2.3 on {name} (0), 1.2.4 on {name} (1)" in host.err
        assert "Traceback" not in host.err
    assert not job.ranks


def test_a_host_that_cannot_be_set_up_is_named(job: Job) -> None:
    graft = str(job.directory / "none.so")
    hosts = [job.start("--node-rank=0"), job.start("--node-rank=1", "--way=auto", "--graft", graft)]
    assert [host.code for host in hosts] == [3, 3]
    name = f"{socket.gethostname()} (1)"
    assert hosts[0].last.startswith(f"error: host {name} failed: the graft {graft}: cannot be read")
    assert not job.ranks


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        (["--node-rank=1"], ["--node-rank=1"], ""),
        ([], ["--max-restarts=2"], "--max-restarts: "),
        (["--rdzv-id=a"], ["--rdzv-id=b"], "the job there has another --rdzv-id"),
    ],
    ids=["numbers", "options", "jobs"],
)
def test_hosts_whose_options_do_not_fit(
    job: Job, one: list[str], other: list[str], told: str
) -> None:
    if not told:
        first = job.start("--node-rank=0", nodes=3)
        hosts = [job.start(*options, nodes=3) for options in (one, other)]
        assert [host.code for host in (first, *hosts)] == [2, 2, 2]
        assert f"--node-rank 1: {socket.gethostname()} and" in first.err
        return
    hosts = [job.start(*one), job.start(*other)]
    until(lambda: any(host.process.poll() is not None for host in hosts))
    ended = next(host for host in hosts if host.process.poll() is not None)
    assert ended.code == 2
    assert told in ended.err


def greet_from_elsewhere(endpoint: tuple[str, int], words: bytes) -> None:
    """Sends what is no message of a host, which hangs up."""
    with socket.create_connection(endpoint) as connection:
        connection.sendall(words)
        connection.settimeout(ENOUGH)
        assert connection.recv(100) == b""


def test_who_is_no_host_is_not_let_in(job: Job) -> None:
    first = job.start("--node-rank=0")
    host, _, port = job.endpoint.partition(":")
    until(lambda: listens((host, int(port))), first.process)
    for words in (b"GET / HTTP/1.1\r\n", b"[1]\n", b'{"protocol": "another"}\n'):
        greet_from_elsewhere((host, int(port)), words)
    assert [job.start("--node-rank=1").code, first.code] == [0, 0]


def listens(endpoint: tuple[str, int]) -> bool:
    try:
        socket.create_connection(endpoint).close()
    except OSError:
        return False
    return True


def test_another_server_at_the_endpoint(job: Job) -> None:
    host, _, port = job.endpoint.partition(":")
    with socket.create_server((host, int(port))) as server:
        for options in (["--node-rank=0"], ["--node-rank=1"]):
            started = job.start(*options)
            if options == ["--node-rank=1"]:
                server.accept()[0].close()
            assert started.code == 2
            assert started.last.startswith(f"error: --rdzv-endpoint {job.endpoint}: ")


REFUSED: list[tuple[list[str], str]] = [
    (["--nnodes=0"], "'--nnodes'"),
    (["--nnodes=1:2"], "'--nnodes'"),
    (["--nnodes=2"], "name an address of the first host with --rdzv-endpoint HOST:PORT"),
    (["--nnodes=2", "--rdzv-endpoint=h:0"], "--rdzv-endpoint h:0: not HOST:PORT"),
    (["--nnodes=2", "--rdzv-endpoint=h:1", "--node-rank=2"], "--node-rank 2: the hosts are 0 to 1"),
    (["--nnodes=2", "--rdzv-endpoint=h:1", "--workers=2"], "--workers is for one machine"),
    (["--nnodes=2", "--rdzv-endpoint=h:1", "--once"], "--once is for one machine"),
    (["--nnodes=2", "--rdzv-endpoint=h:1", "--standalone"], "--standalone is for one machine"),
    (["--node-rank=-1"], "'--node-rank'"),
    (["--node-rank=1"], "--node-rank 1: there is one host; give --nnodes"),
    (["--rdzv-endpoint=h:1"], "give --nnodes as well"),
    (["--rdzv-backend=etcd"], "'--rdzv-backend'"),
    (["--nproc-per-node=0"], "'--nproc-per-node'"),
    (["--nproc-per-node=2", "--workers=2"], "--workers and --nproc-per-node: drop one of them"),
    (["--max-restarts=-1"], "'--max-restarts'"),
    (["--once", "--max-restarts=1"], "drop --max-restarts"),
    (["--rdzv-conf=join_timeout=x"], "--rdzv-conf join_timeout=x: give join_timeout=SECONDS"),
    (["--rdzv-conf=read_timeout=1"], "--rdzv-conf read_timeout=1: give join_timeout=SECONDS"),
    (["--nnodes=2", "--rdzv-endpoint=192.0.2.1:1", "--node-rank=0"], "cannot listen there"),
]


@pytest.mark.parametrize(("options", "told"), REFUSED, ids=lambda value: " ".join(value)[:60])
def test_what_is_refused(tmp_path: Path, options: list[str], told: str) -> None:
    done = command.run("run", *options, "--", sys.executable, "-c", "pass", cwd=tmp_path)
    assert done.returncode == 2
    (line,) = [one for one in done.stderr.splitlines() if one.lower().startswith("error: ")]
    assert told in line
    assert "Traceback" not in done.stderr
