"""Locks of directories."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from patchgen.errors import TreeError
from patchgen.system import lock


def test_a_program_that_a_killed_run_was_starting_is_waited_for(tmp_path: Path) -> None:
    """A child has the lock, as a program has it that is about to be started."""
    with lock.opened(str(tmp_path)) as descriptor:
        assert lock.try_lock(descriptor)
        child = os.fork()
        if child == 0:
            time.sleep(0.3)
            os._exit(0)
    with lock.held(str(tmp_path)):
        pass
    os.waitpid(child, 0)


def test_another_run_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "_STARTING", 0.1)
    with (
        lock.held(str(tmp_path)),
        pytest.raises(TreeError, match="another run is at work here; wait for its end"),
        lock.held(str(tmp_path)),
    ):
        pass
