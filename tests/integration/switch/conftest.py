"""The switch, compiled once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from support.switch_program import Switch, Switches, program
from support.unprivileged import directory


@pytest.fixture(scope="session")
def switch_program(tmp_path_factory: pytest.TempPathFactory) -> str:
    return program(tmp_path_factory)


@pytest.fixture
def start(switch_program: str) -> Iterator[Switches]:
    """Starts a switch. Its sockets have short paths, unlike those of pytest."""
    with directory() as short, contextlib.ExitStack() as stack:

        def begin(workers: int, *options: str) -> Switch:
            switch = Switch(switch_program, short, workers, *options)
            stack.callback(switch.close)
            return switch

        yield begin
