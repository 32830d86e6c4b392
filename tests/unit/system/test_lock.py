"""Locks of directories."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from patchgen.errors import TreeError
from patchgen.system import lock

HELD = "another run is at work here; wait for its end"


def start_child(descriptor: int, seconds: float) -> int:
    """A child that has a lock as a program has it that is about to be started."""
    assert lock.try_lock(descriptor)
    child = os.fork()
    if child == 0:
        time.sleep(seconds)
        os._exit(0)
    return child


def test_a_program_that_a_killed_run_was_starting_is_waited_for(tmp_path: Path) -> None:
    with lock.opened(str(tmp_path)) as descriptor:
        child = start_child(descriptor, 0.3)
    with lock.held(str(tmp_path)):
        pass
    os.waitpid(child, 0)


def test_another_run_is_not_waited_for(tmp_path: Path) -> None:
    with (
        lock.held(str(tmp_path)),
        pytest.raises(TreeError, match=HELD),
        lock.held(str(tmp_path)),
    ):
        pass
