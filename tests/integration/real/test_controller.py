"""SwitchML's own controller before the software switch: jobs begin through it, also after a death.

Each fix of the controller is left out once, and then the next job does not begin.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from support.real import LabLauncher, compiled, run_workers
from support.shared import once
from support.sml_controller import controlled_lab, make_controller
from support.switch_clients import Controller
from support.torch import REPOSITORY, results

from patchgen.extras.lab import lab

WAITER = REPOSITORY / "tests" / "payload" / "barrier_worker.py"
JOBS = 20
LIMIT = "30"  # seconds for one of them
ENV = {"SWITCHML_START_TIMEOUT_MS": "10000"}
_UNTIL_IT_WAITS = 3.0  # seconds
_UNTIL_IT_IS_MISSED = 25.0  # seconds; the controller asks every ten, and waits ten for the answer


@pytest.fixture(scope="session")
def jobs(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = REPOSITORY / "tests" / "cpp" / "real_jobs.cpp"
    return once(
        tmp_path_factory, "jobs", lambda place: compiled(source, home, place / "jobs")
    ) / "jobs"  # fmt: skip


def begins(running: lab.Lab, program: Path, place: Path) -> bool:
    """Whether the next job of two workers begins and sums rightly."""
    command = [program, "switchml.cfg", "7", str(JOBS), LIMIT]
    ended = run_workers(running, command, 2, place, env=ENV)
    right = [f"jobs {JOBS} wrong 0 ".encode() in rank.out for rank in ended]
    assert right in ([True] * 2, [False] * 2), [rank.err.decode()[-1000:] for rank in ended]
    return all(right)


def test_jobs_one_after_another(switch: str, controller: Path, jobs: Path, tmp_path: Path) -> None:
    with controlled_lab(switch, controller) as running:
        for number in range(2):
            assert begins(running, jobs, tmp_path / str(number))


def test_ranks_with_torch(by_plugin: LabLauncher, switch: str, controller: Path) -> None:
    with controlled_lab(switch, controller) as running:
        launch = dataclasses.replace(by_plugin, labs=[running])
        config = {"prepostprocessor": "cpu_exponent_quantizer"}
        arguments = {"sizes": [1, 12_345]}
        ranks = launch.collect(launch.begin("sums", 2, config=config, arguments=arguments))
    for result in results(ranks):
        assert result["report"]["delegating"] is True


@pytest.fixture
def running(switch: str, without: tuple[str, ...], tmp_path: Path) -> Iterator[lab.Lab]:
    """A switch behind a controller without some fixes."""
    make_controller(tmp_path / "controller", *without)
    with controlled_lab(switch, tmp_path / "controller") as made:
        yield made


@contextlib.contextmanager
def waiter(address: str) -> Iterator[subprocess.Popen[str]]:
    """A worker of two that waits in a barrier."""
    path = os.pathsep.join([str(WAITER.parents[1]), os.environ.get("PYTHONPATH", "")])
    with subprocess.Popen(
        [sys.executable, WAITER, address, "2"],
        env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "waits\n"
            time.sleep(_UNTIL_IT_WAITS)
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("without", [(), ("dead-workers",)], ids=["fixed", "unfixed"])
def test_a_worker_that_dies_in_a_barrier(
    running: lab.Lab, jobs: Path, tmp_path: Path, without: tuple[str, ...]
) -> None:
    with waiter(f"127.0.0.1:{running.port}"):
        pass  # and then it is killed
    assert begins(running, jobs, tmp_path / "first") == (not without)
    if not without:
        assert begins(running, jobs, tmp_path / "second")


@pytest.mark.parametrize("without", [(), ("dead-workers",)], ids=["fixed", "unfixed"])
def test_a_job_that_dies_before_all_have_come(
    running: lab.Lab, jobs: Path, tmp_path: Path, without: tuple[str, ...]
) -> None:
    """Rank 0 has said the session's number, and its peer never comes."""
    command = [jobs, "switchml.cfg", "7", "1", LIMIT]
    (alone,) = run_workers(running, command, 2, tmp_path / "alone", only=[0], limit=8)
    assert alone.code == -signal.SIGKILL
    assert begins(running, jobs, tmp_path / "next") == (not without)


@pytest.mark.parametrize("without", [(), ("dead-workers",)], ids=["fixed", "unfixed"])
def test_a_larger_job_after_one_that_died(running: lab.Lab, without: tuple[str, ...]) -> None:
    dying, *workers = (Controller(f"127.0.0.1:{running.port}") for _ in range(4))
    call = dying.begin("Sync/Broadcast", {1: 5, 2: 0, 3: 2, 4: 0})
    if without:
        call.result()  # it waits for nobody
    time.sleep(_UNTIL_IT_WAITS)
    dying.channel.close()
    time.sleep(_UNTIL_IT_WAITS)
    calls = []
    for rank, worker in reversed([*enumerate(workers)]):
        calls.append(worker.begin("Sync/Broadcast", {1: 6, 2: rank, 3: 3, 4: 0}))
        time.sleep(_UNTIL_IT_WAITS)
    if without:
        with pytest.raises(grpc.RpcError, match="list index out of range"):
            calls[0].result()
    else:
        assert [call.result() for call in calls] == [{1: 6}] * 3


@pytest.mark.parametrize("without", [(), ("silent-workers",)], ids=["fixed", "unfixed"])
def test_a_host_that_is_gone_without_a_word(
    running: lab.Lab, jobs: Path, tmp_path: Path, without: tuple[str, ...]
) -> None:
    """A process that is stopped answers nothing either."""
    with waiter(f"127.0.0.1:{running.port}") as gone:
        gone.send_signal(signal.SIGSTOP)
        time.sleep(_UNTIL_IT_IS_MISSED)
        assert begins(running, jobs, tmp_path / "next") == (not without)
