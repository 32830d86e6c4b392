"""Ranks that are started side by side: their variables, what they write, and how they end."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest
from support.waiting import ENOUGH, has_ended

from patchgen.core.verify.start import list_failed, number_ranks
from patchgen.system.process import Program, side_by_side

NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
UP = "import os, sys, time\nrank = os.environ['RANK']\nopen(f'{rank}.up', 'w').close()\n"
TWO = "while not os.path.exists('0.up') or not os.path.exists('1.up'): time.sleep(0.01)\n"


def ranks(tmp_path: Path, code: str, workers: int = 2, grace: float = 0) -> list[Program]:
    environs = [{**os.environ, **own} for own in number_ranks(workers)]
    command = [sys.executable, "-c", code, "an argument", "*"]
    return [Program(command, tmp_path, environ, grace=grace) for environ in environs]


def test_the_environment_and_the_arguments_of_a_rank(tmp_path: Path) -> None:
    code = f"import os, sys; print(*[os.environ[name] for name in {NAMES}], sys.argv[1:])"
    ends = side_by_side(ranks(tmp_path, code, 3), limit=None)
    assert list_failed(ends) == {}
    port = ends[0].out.split()[5].decode()
    for rank, end in enumerate(ends):
        expected = f"{rank} {rank} 3 3 127.0.0.1 {port} ['an argument', '*']\n"
        assert end.out.decode() == expected


@pytest.mark.parametrize(
    ("end", "failed"), [("sys.exit(7)", 7), ("os.kill(os.getpid(), 9)", -9), ("boo", 1)]
)
def test_one_rank_fails_and_the_other_is_ended(tmp_path: Path, end: str, failed: int) -> None:
    code = f"{UP}{TWO}if rank == '1':\n    {end}\ntime.sleep(600)"
    ends = side_by_side(ranks(tmp_path, code, grace=ENOUGH), limit=None)
    assert list_failed(ends) == {1: failed}
    assert ends[0].killed == "still waited for the others"


def test_the_rank_that_failed_first_is_the_first(tmp_path: Path) -> None:
    code = f"{UP}{TWO}time.sleep(0 if rank == '1' else 1); sys.exit(3 + int(rank))"
    ends = side_by_side(ranks(tmp_path, code), limit=None, patience=ENOUGH)
    assert [*list_failed(ends).items()] == [(1, 4), (0, 3)]


def test_a_rank_has_time_to_end(tmp_path: Path) -> None:
    """Another one, which does not listen, is killed."""
    code = (
        f"import signal\n{UP}"
        "def end(*_):\n    if rank == '0': print('saved', flush=True); sys.exit(5)\n"
        f"signal.signal(signal.SIGTERM, end)\nopen(f'{{rank}}.ready', 'w').close()\n"
        "ready = ['0.ready', '1.ready', '2.ready']\n"
        "while not all(map(os.path.exists, ready)): time.sleep(0.01)\n"
        "if rank == '2': sys.exit(1)\n"
        "while True: time.sleep(600)"
    )
    ends = side_by_side(ranks(tmp_path, code, 3, grace=1), limit=None)
    assert list_failed(ends) == {2: 1}
    assert [run.code for run in ends] == [5, -9, 1]
    assert ends[0].out == b"saved\n"


def test_ranks_are_ended_on_request(tmp_path: Path) -> None:
    stop = threading.Event()
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    pids: list[bytes] = []

    def take(_rank: int, _name: str, line: bytes) -> None:
        pids.append(line)
        if len(pids) == 2:
            stop.set()

    ends = side_by_side(ranks(tmp_path, code, grace=ENOUGH), limit=None, output=take, stop=stop)
    assert [run.how for run in ends] == ["stopped"] * 2
    assert list_failed(ends) == {}
    assert all(has_ended(pid.decode().strip()) for pid in pids)
