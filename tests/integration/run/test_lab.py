"""run --lab: the switch beside ranks, its counters, and its end.

The workers are programs of ours that speak memif and gRPC; tests/integration/real has the library.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import command, memif_worker, quick_torch
from support.waiting import captured, descendants, has_ended, until

TESTS = Path(memif_worker.__file__).parents[1]
PACKETS = 40
# Tells that it runs, and goes on until it is ended.
STAYS = """
import os, sys, time
import torch.distributed as dist
dist.init_process_group("gloo")
config = os.environ["SWITCHML_CONFIG"]
with open(f"{dist.get_rank()}.part", "w") as file:
    file.write(os.path.expandvars(open(config).read()))
os.replace(f"{dist.get_rank()}.part", f"{dist.get_rank()}.cfg")
time.sleep(600)
"""


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """TMPDIR of the command, which leaves nothing in it."""
    made = tmp_path / "scratch"
    made.mkdir()
    yield made
    assert [*made.iterdir()] == []


@pytest.fixture
def quick(tmp_path: Path) -> Path:
    return quick_torch.make(tmp_path)


def lab_command(python: Path | str, cache: Path, *words: object) -> list[str]:
    base = [sys.executable, "-m", "patchgen", "run", "--lab", "--variant=stock", "--cache", cache]
    given, separator, own = [*words[: words.index("--")]], "--", words[words.index("--") + 1 :]
    return [*map(str, [*base, *given, separator, python, *own])]


def environment(scratch: Path, *paths: Path) -> dict[str, str]:
    """Python finds what is in `paths`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SWITCHML_")}
    return {**kept, "TMPDIR": str(scratch), "PYTHONPATH": os.pathsep.join(map(str, paths))}


@contextlib.contextmanager
def staying(
    cache: Path, directory: Path, torch: Path
) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A command whose ranks stay, and all processes of it."""
    with subprocess.Popen(
        lab_command(sys.executable, cache, "--workers", 2, "--", "-c", STAYS), cwd=directory,
        env=environment(directory / "scratch", torch), stderr=subprocess.PIPE, text=True,
    ) as running:  # fmt: skip
        try:
            until(lambda: len([*directory.glob("*.cfg")]) == 2, running)
            yield running, descendants(running.pid)
        finally:
            running.kill()


@pytest.mark.parametrize(
    ("workers", "faults"), [(2, ()), (3, ("--loss", "0", "--seed", "3"))], ids=["sound", "faults"]
)
def test_workers_send_packets_and_the_table_counts_them(
    request: pytest.FixtureRequest, switch_cache: Path, scratch: Path, tmp_path: Path,
    workers: int, faults: tuple[str, ...],
) -> None:  # fmt: skip
    """Without faults the ranks have a real torch."""
    python = sys.executable if faults else request.getfixturevalue("torch_python")
    paths = [TESTS, *([request.getfixturevalue("quick")] if faults else [])]
    script = TESTS / "payload" / "lab_rank.py"
    report = tmp_path / "report.json"
    words = ["--report", report, "--", script, sys.executable, memif_worker.__file__, PACKETS]
    given = lab_command(python, switch_cache, "--workers", workers, *faults, *words)
    ran = captured(given, cwd=tmp_path, env=environment(scratch, *paths))
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count(f"packets {PACKETS} right") == workers
    header, rule, *rows = ran.stderr.splitlines()[-2 - workers :]
    assert header.split("  ") == ["rank", "packets", "summed", "sent again", "answered again"]
    assert set(rule) == {"-"}
    for rank, line in enumerate(rows):
        assert line.split() == [str(rank), str(PACKETS + 1), str(PACKETS), "1", "1"]
    counters: dict[str, Any] = json.loads(report.read_text())["lab"]
    assert [worker["summed"] for worker in counters["workers"]] == [PACKETS] * workers
    if faults:
        assert counters["seed"] == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_of_a_command_that_is_ended(
    quick: Path, switch_cache: Path, tmp_path: Path, number: signal.Signals
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with staying(switch_cache, tmp_path, quick) as (running, processes):
        assert len(processes) >= 5  # two supervisors, the switch, and at least two ranks
        running.send_signal(number)
        running.communicate()
    for pid in processes:
        assert has_ended(pid)
    if number != signal.SIGKILL:
        assert [*scratch.iterdir()] == []
    ranks = [(tmp_path / f"{rank}.cfg").read_text() for rank in range(2)]
    for rank, text in enumerate(ranks):
        assert f"worker_ip = 10.83.77.{rank}\n" in text
        assert f"port-{rank}," in text


@pytest.mark.usefixtures("scratch")
def test_a_switch_that_dies_is_reported(quick: Path, switch_cache: Path, tmp_path: Path) -> None:
    with staying(switch_cache, tmp_path, quick) as (running, processes):
        names = {pid: Path(f"/proc/{pid}/comm").read_text().strip() for pid in processes}
        (switch,) = [pid for pid, name in names.items() if name == "switchml-switch"]
        os.kill(switch, signal.SIGKILL)
        _, message = running.communicate()
    assert running.returncode == 4
    assert "error: the switch died of SIGKILL before the ranks" in message
    for pid in processes:
        assert has_ended(pid)


CONFIGURED = "--lab: it makes the configurations; drop --config"
NO_DPDK = "--lab: the simulator has no DPDK; make one by:"
REFUSED: list[tuple[str, tuple[str, ...], str]] = [
    *((name, ("--lab", "--config", "x.cfg"), CONFIGURED) for name in ("run", "doctor")),
    *((name, ("--loss", "0.1", "--config", "x.cfg"), CONFIGURED) for name in ("run", "doctor")),
    *((name, ("--no-lab", "--loss", "0.1"), "drop --no-lab") for name in ("run", "doctor")),
    *((name, ("--delay", "5", "--cache", "cache"), NO_DPDK) for name in ("run", "doctor")),
    ("run", ("--lab", "--variant", "stock", "--workers", "33"), "the switch has room for 32"),
]


@pytest.mark.parametrize(("name", "words", "message"), REFUSED)
def test_what_cannot_be(
    quick: Path, tmp_path: Path, name: str, words: tuple[str, ...], message: str
) -> None:
    given = ["--torch", sys.executable, *(["--", "true"] if name == "run" else [])]
    ran = command.run(name, *words, *given, cwd=tmp_path, path=quick)
    assert ran.returncode == 2
    assert message in ran.stderr
    kept = [path.suffix for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert set(kept) <= {".json"}, "nothing is compiled"


def test_a_library_without_dpdk_has_no_lab(torch_python: Path, graft: Path, tmp_path: Path) -> None:
    ran = command.run("run", "--lab", "--graft", graft, "--", torch_python, "-c", "", cwd=tmp_path)
    assert ran.returncode == 2
    assert "has no DPDK; make one by: switchml-patch client build --dpdk -o DIR" in ran.stderr
