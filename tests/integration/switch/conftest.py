"""The switch, compiled once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.switch_program import Switches, ending, program
from support.unprivileged import directory


@pytest.fixture(scope="session")
def switch_program(tmp_path_factory: pytest.TempPathFactory) -> str:
    return program(tmp_path_factory)


@pytest.fixture
def start(switch_program: str) -> Iterator[Switches]:
    """Starts a switch. Its sockets have short paths, unlike those of pytest."""
    with directory() as short:
        yield from ending(Switches(switch_program, short))
