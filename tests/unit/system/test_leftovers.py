"""What a killed run has left is removed by the next, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from patchgen.system import files, leftovers

HOLDS = """
import sys, time
from patchgen.system import files
with files.scratch("run") as directory:
    open(directory + "/file", "w").close()
    print(directory, flush=True)
    while True:  # a signal may come just before it sleeps
        time.sleep(0.1)
"""
HOST = leftovers.name_host()


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for cached in (leftovers.sweep, leftovers.name_host):
        cached.cache_clear()
    yield tmp_path
    for cached in (leftovers.sweep, leftovers.name_host):
        cached.cache_clear()


def names(place: Path) -> list[str]:
    return sorted(entry.name for entry in place.iterdir())


def test_a_killed_run_is_cleaned_up_after_and_a_living_one_is_left_alone(place: Path) -> None:
    environ = {**os.environ, "TMPDIR": str(place)}
    runs, theirs = [], []
    numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1]
    for _ in range(1 + len(numbers)):
        runs.append(
            subprocess.Popen([sys.executable, "-c", HOLDS], env=environ, stdout=subprocess.PIPE)
        )
        assert runs[-1].stdout is not None
        theirs.append(os.path.basename(runs[-1].stdout.readline().decode().strip()))
    try:
        runs[0].kill()
        runs[0].wait()
        assert names(place) == sorted(theirs)
        with files.scratch("verify") as ours:
            assert names(place) == sorted([*theirs[1:], os.path.basename(ours)])
        assert names(place) == sorted(theirs[1:])
        for run, number in zip(runs[1:], numbers):
            run.send_signal(number)
            assert run.wait() == -number
        assert names(place) == []
    finally:
        for run in runs:
            run.kill()
            run.communicate()


def test_what_is_not_ours_stays(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    others = [
        "switchml-run-abcdefgh",
        "switchml-commands-ab_cdef1",
        "switchml-run.abc",
        "switchml-older.abcdefgh",
        "run.abcd1234",
    ]
    left, file, link = (f"switchml-{name}.{HOST}.abcdefgh" for name in ("left", "file", "link"))
    for name in [*others, "target", left]:
        (place / name).mkdir()
    (place / file).touch()
    (place / link).symlink_to("target")
    with monkeypatch.context() as context:
        context.setattr(os, "geteuid", lambda: os.getuid() + 1)
        with files.scratch("run"):
            pass
    assert left in names(place)  # of another user
    leftovers.sweep.cache_clear()
    with files.scratch("run"):
        pass
    assert {*names(place)} == {file, link, "target", *others}


@pytest.mark.parametrize("other", ["host", "boot"])
def test_what_another_host_has_made_stays(
    place: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    """Its locks may not be seen here; after a start of this one nobody knows what is left."""
    left = place / f"switchml-run.{HOST}.abcdefgh"
    left.mkdir()
    if other == "host":
        here = os.uname()
        monkeypatch.setattr(os, "uname", lambda: os.uname_result([here[0], "other", *here[2:]]))
    else:
        monkeypatch.setattr(leftovers, "_BOOT", os.devnull)
    leftovers.name_host.cache_clear()
    with files.scratch("run") as ours:
        assert HOST not in os.path.basename(ours)
    assert names(place) == [left.name]


def test_a_new_directory_is_not_taken_for_a_left_one(place: Path) -> None:
    """Between its making and its lock another run may look: nobody is left without a directory."""
    end = threading.Event()

    def sweep() -> None:
        while not end.is_set():
            leftovers.sweep.__wrapped__(str(place))

    sweeping = threading.Thread(target=sweep)
    sweeping.start()
    try:
        for _ in range(300):
            with files.scratch("run") as directory:
                with open(os.path.join(directory, "file"), "w", encoding="ascii"):
                    pass
                assert os.listdir(directory) == ["file"]
    finally:
        end.set()
        sweeping.join()
    assert names(place) == []


def no_locks(*_: object) -> None:
    raise OSError(95, "Operation not supported")


@pytest.mark.parametrize("flock", [no_locks, lambda *_: None], ids=["none", "no use"])
def test_without_locks_nothing_is_swept(
    place: Path, monkeypatch: pytest.MonkeyPatch, flock: Callable[..., None]
) -> None:
    left = f"switchml-left.{HOST}.abcdefgh"
    (place / left).mkdir()
    monkeypatch.setattr("fcntl.flock", flock)
    with files.scratch("run") as directory:
        assert os.path.isdir(directory)
    assert names(place) == [left]
