"""The real client library through the software switch: upstream's programs, and seeded jobs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.real import FAULTS, Settings, compiled, programs
from support.torch import REPOSITORY

from patchgen.extras.lab import lab
from patchgen.system.process import CompletedRun

JOBS = 1000
LIMIT = "60"  # seconds for one job
SEEDS = range(1, 9)


def all_well(ended: list[CompletedRun]) -> None:
    for rank in ended:
        assert not rank.how, f"{rank.how}\n{rank.out.decode()}\n{rank.err.decode()[-3000:]}"


def counted(running: lab.Lab, name: str) -> list[int]:
    return [worker[name] for worker in running.counters["workers"]]


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("faults", [lab.Faults(), FAULTS], ids=["sound", "faulty"])
def test_hello_world(
    checkout: Path, home: Path, switch: str, tmp_path: Path, workers: int, faults: lab.Faults
) -> None:
    source = checkout / "dev_root" / "examples" / "hello_world" / "main.cc"
    program = compiled(source, home, tmp_path / "hello")
    ended, running = programs(
        switch, [program], workers, tmp_path, settings=Settings(), faults=faults
    )
    all_well(ended)
    # 8 tensors of 2^15 float32 are 128 packets each, and first come 64 with exponents alone.
    assert counted(running, "summed") == [8 * (128 + 64)] * workers
    if faults.loss:
        assert sum(counted(running, "lost")) > 0
        assert sum(counted(running, "answered_again")) > 0


def test_its_benchmark_verifies(checkout: Path, home: Path, switch: str, tmp_path: Path) -> None:
    source = checkout / "dev_root" / "benchmarks" / "allreduce_benchmark" / "main.cc"
    program = compiled(source, home, tmp_path / "benchmark")
    command = [program, "--tensor-numel", "262144", "--num-jobs", "5", "--num-warmup-jobs", "1"]
    for kind in ("int32", "float"):
        ended, running = programs(
            switch, [*command, "--tensor-type", kind, "--verify", "1"], 2, tmp_path / kind,
            settings=Settings(threads=2, outstanding=256), faults=lab.Faults(),
        )  # fmt: skip
        all_well(ended)
        assert all(summed >= 6 * 1024 for summed in counted(running, "summed"))


def of_jobs(ended: CompletedRun) -> tuple[int, int] | None:
    """Jobs that ended, and those that were wrong; None where the process died before."""
    output = re.search(rb"^jobs (\d+) wrong (\d+) ", ended.out, re.MULTILINE)
    return (int(output[1]), int(output[2])) if output else None


@pytest.mark.parametrize(
    ("workers", "settings"),
    [
        (2, Settings()),
        (3, Settings()),
        (2, Settings(threads=2, outstanding=96)),
        (2, Settings(packet_numel=64, outstanding=40)),
    ],
    ids=["2", "3", "2 with threads", "2 with small packets"],
)
def test_a_thousand_jobs(
    home: Path, switch: str, tmp_path: Path, workers: int, settings: Settings
) -> None:
    program = compiled(REPOSITORY / "tests" / "cpp" / "real_jobs.cpp", home, tmp_path / "jobs")
    command = [program, "switchml.cfg", "7", str(JOBS), LIMIT]
    ended, running = programs(
        switch, command, workers, tmp_path, settings=settings, faults=FAULTS, limit=1200
    )
    assert [of_jobs(rank) for rank in ended] == [(JOBS, 0)] * workers
    all_well(ended)
    assert sum(counted(running, "lost")) > JOBS
    assert running.counters["duplicated"] > JOBS
    assert running.counters["overtaken"] > JOBS


@pytest.mark.parametrize("name", ["home", "half_batches"])
def test_jobs_of_more_than_half_a_batch(
    request: pytest.FixtureRequest, switch: str, tmp_path: Path, name: str
) -> None:
    """Of 33 to 63 packets, where 64 are under way."""
    home = request.getfixturevalue(name)
    program = compiled(REPOSITORY / "tests" / "cpp" / "real_jobs.cpp", home, tmp_path / "jobs")
    sizes = [str(packets * 256) for packets in (33, 63)]
    command = [program, "switchml.cfg", "1", "200", "15", *sizes]
    faults = lab.Faults(loss=0.02, seed=3)
    ended, _ = programs(switch, command, 2, tmp_path, settings=Settings(), faults=faults)
    right = [of_jobs(rank) == (200, 0) for rank in ended]
    assert right == [name == "home"] * 2


def test_without_the_fixes_sums_are_wrong(unfixed: Path, switch: str, tmp_path: Path) -> None:
    """Else the jobs above would prove nothing."""
    program = compiled(REPOSITORY / "tests" / "cpp" / "real_jobs.cpp", unfixed, tmp_path / "jobs")
    for seed in SEEDS:
        command = [program, "switchml.cfg", str(seed), "50", "10"]
        place = tmp_path / str(seed)
        ended, _ = programs(switch, command, 2, place, settings=Settings(), faults=FAULTS)
        if any(b" is wrong\n" in rank.out for rank in ended):
            return
    pytest.fail("no wrong sum without the fixes")
